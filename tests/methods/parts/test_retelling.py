"""Old facts as the last model tells them, and how they are learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.kernels.made import made_tables
from tests.methods.hand_made import PAST, as_facts

from lkge.config import Settings
from lkge.data.batches import batches
from lkge.data.snapshots import Facts, with_inverses
from lkge.methods.parts.profile import Profile
from lkge.methods.parts.retelling import Retelling, answers
from lkge.models.model import Model
from lkge.models.objectives import softmax as room
from lkge.models.predictor import TablePredictor
from lkge.models.scores import SCORES, Score, score_named
from lkge.models.tables import Gradient, Tables

ONE_TO_MANY = as_facts([(0, 0, 1), (0, 0, 2), (0, 0, 3), (4, 2, 1)])

pytestmark = pytest.mark.usefixtures("one_thread")


def teacher_of(name: str, tables: Tables, fused: bool = True) -> TablePredictor:
    return TablePredictor.of(tables, score_named(name), fused)


def scores_of(score: Score, tables: Tables, head: int, relation: int) -> list[float]:
    """One fact at a time."""
    entity = score.prepare_entities(tables.entity)
    between = score.prepare_relations(tables.relation)[relation]
    return [float(score.score(entity[head], between, tail)) for tail in entity]


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("most", [1, 1 << 24], ids=["many blocks", "one block"])
def test_a_question_has_as_many_answers_as_it_had_and_they_are_the_best(
    name: str, fused: bool, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_NUMBERS", most)
    tables, profile = made_tables(1, 9, 2, 8, scale=1.0), Profile().with_facts(ONE_TO_MANY)
    told = Retelling.of(
        teacher_of(name, tables, fused), profile, (4, 100), np.random.default_rng(0)
    ).facts.reshape(-1, 3)
    found, times = np.unique(told, axis=0, return_counts=True)
    assert times.tolist() == [400 // (2 * len(ONE_TO_MANY))] * (2 * len(ONE_TO_MANY))
    for (head, relation), count in zip(
        profile.questions.tolist(), profile.counts.tolist(), strict=True
    ):
        scores = scores_of(score_named(name), tables, head, relation)
        best = sorted(range(9), key=lambda tail: -scores[tail])[:count]
        asked = (found[:, 0] == head) & (found[:, 1] == relation)
        assert sorted(found[asked, 2].tolist()) == sorted(best)


def test_more_answers_than_entities_are_told_as_far_as_there_are_entities() -> None:
    tables = made_tables(1, 3, 1, 8, scale=1.0)
    asked, places, ranks = np.zeros((1, 2), np.int32), np.zeros(5, np.int64), np.arange(5)
    told = answers(teacher_of("transe", tables), asked, places, ranks)
    assert set(told.tolist()) == {0, 1, 2}


def told_by_a_good_teacher() -> tuple[Facts, Facts]:
    """What is told of a ring, whose tables are right about it; and the ring."""
    turns = torch.arange(12)[:, None] * torch.arange(1, 5) * (2 * torch.pi / 12)
    step = torch.arange(1, 5) * (2 * torch.pi / 12)
    forth, back = torch.cat([step.cos(), step.sin()]), torch.cat([step.cos(), -step.sin()])
    tables = Tables(torch.cat([turns.cos(), turns.sin()], dim=1), torch.stack([forth, back]))
    ring = as_facts([(k, 0, (k + 1) % 12) for k in range(12)])
    profile = Profile().with_facts(ring)
    told = Retelling.of(
        teacher_of("rotate", tables), profile, (8, 3), np.random.default_rng(0)
    ).facts.reshape(-1, 3)
    return told, ring


def test_who_knows_the_facts_tells_them() -> None:
    told, ring = told_by_a_good_teacher()
    assert sorted(told.tolist()) == sorted(with_inverses(ring).tolist())


@pytest.mark.parametrize("objective", ["margin", "sampled", "softmax"])
@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("sharing", [1, 2])
def test_old_and_new_facts_have_their_shares_of_the_gradient(
    objective: str, backend: str, sharing: int
) -> None:
    settings = Settings(dim=8, objective=objective, backend=backend, n3=0.1, negatives=3)
    model = Model(settings.with_changes({"sharing": sharing}))
    model.tables = made_tables(2, 12, 2, 8, scale=1.0)
    teacher = teacher_of("transe", made_tables(1, 9, 2, 8, scale=1.0))
    retelling = Retelling.of(
        teacher, Profile().with_facts(as_facts(PAST)), (5, 1), np.random.default_rng(0)
    )
    new, gradient = Gradient.like(model.tables), Gradient.like(model.tables)
    (batch,) = batches(with_inverses(ONE_TO_MANY), 8, model.negatives, 12, np.random.default_rng(3))
    for each in (new, gradient):
        model.objective.add_gradient(model.tables, batch, each)
    loss = retelling.add_gradient(model, 0.3, gradient, np.random.default_rng(4))

    generator, old = np.random.default_rng(4), Gradient.like(model.tables)
    generator.integers(0, 1, 5)
    (told,) = batches(retelling.facts[:, 0], 5, model.negatives, 12, generator, sharing)
    assert loss == pytest.approx(0.3 * model.objective.add_gradient(model.tables, told, old))
    for part, mine, yours in zip(gradient, new, old, strict=True):
        expected = 0.7 * mine.values + 0.3 * yours.values
        torch.testing.assert_close(part.values, expected, rtol=1e-4, atol=1e-6)
        assert torch.equal(part.touched, mine.touched | yours.touched)
