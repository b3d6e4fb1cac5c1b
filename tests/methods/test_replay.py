"""Old facts as the last model tells them, and how they are learned."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS, made_tables
from tests.methods.hand_made import PAST, as_facts

from lkge.backends import Backend
from lkge.backends import torch_softmax as room
from lkge.data.batches import batches, sample_candidates
from lkge.data.snapshots import Facts, with_inverses
from lkge.methods.parts import retelling as retelling_room
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor
from lkge.models.scores import SCORES, Score, score_named
from lkge.testing import paper_config

ONE_TO_MANY = as_facts([(0, 0, 1), (0, 0, 2), (0, 0, 3), (4, 2, 1)])

pytestmark = pytest.mark.usefixtures("one_thread")


def teacher_of(name: str, tables: Parameters, backend: Backend = True) -> TablePredictor:
    return TablePredictor.of(tables, score_named(name), backend)


def scores_of(score: Score, tables: Parameters, head: int, relation: int) -> list[float]:
    """One fact at a time."""
    entity = score.prepare_entities(tables.entity)
    between = score.prepare_relations(tables.relation)[relation]
    return [float(score.score(entity[head], between, tail)) for tail in entity]


def all_told(teacher: TablePredictor, profile: QueryCounts, among: list[Entities]) -> Facts:
    return generate(teacher, profile, np.arange(len(profile.counts)), among)


def everyone(entities: int, relations: int) -> list[Entities]:
    return [np.arange(entities)] * relations


@pytest.mark.parametrize("name", sorted(SCORES))
@BACKENDS
@pytest.mark.parametrize("most", [1, 1 << 24], ids=["many blocks", "one block"])
@pytest.mark.parametrize("known", [True, False], ids=["who has answered", "everyone"])
def test_a_question_has_as_many_answers_as_it_had_and_they_are_the_best(
    name: str, backend: Backend, most: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_NUMBERS", most)
    tables, profile = made_tables(1, 9, 2, 8, scale=1.0), QueryCounts().with_facts(ONE_TO_MANY)
    among = answers_by_relation(profile, 4) if known else everyone(9, 4)
    facts = all_told(teacher_of(name, tables, backend), profile, among)
    assert len(np.unique(facts, axis=0)) == len(facts) == 2 * len(ONE_TO_MANY)
    for (head, relation), count in zip(
        profile.queries.tolist(), profile.counts.tolist(), strict=True
    ):
        scores = scores_of(score_named(name), tables, head, relation)
        best = sorted(among[relation].tolist(), key=lambda tail: -scores[tail])[:count]
        asked = (facts[:, 0] == head) & (facts[:, 1] == relation)
        assert sorted(facts[asked, 2].tolist()) == sorted(best)


def test_who_has_answered_is_known_from_the_inverse_questions() -> None:
    profile = QueryCounts().with_facts(ONE_TO_MANY)
    found = [sorted(entities.tolist()) for entities in answers_by_relation(profile, 6)]
    assert found == [[1, 2, 3], [0], [1], [4], [], []]


def test_more_answers_than_entities_are_told_as_far_as_there_are_entities() -> None:
    tables = made_tables(1, 3, 1, 8, scale=1.0)
    profile = QueryCounts(np.zeros((1, 2), np.int32), np.array([5], np.int32))
    facts = all_told(teacher_of("transe", tables), profile, everyone(3, 2))
    assert sorted(facts[:, 2].tolist()) == [0, 1, 2]


def ring_and_teacher() -> tuple[Facts, TablePredictor]:
    """A ring, and tables that are right about it."""
    turns = torch.arange(12)[:, None] * torch.arange(1, 5) * (2 * torch.pi / 12)
    step = torch.arange(1, 5) * (2 * torch.pi / 12)
    forth, back = torch.cat([step.cos(), step.sin()]), torch.cat([step.cos(), -step.sin()])
    tables = Parameters(torch.cat([turns.cos(), turns.sin()], dim=1), torch.stack([forth, back]))
    ring = as_facts([(k, 0, (k + 1) % 12) for k in range(12)])
    return ring, teacher_of("rotate", tables)


def retelling_of(
    teacher: TablePredictor, profile: QueryCounts, questions: int, steps: int
) -> Replay:
    return Replay(
        teacher, profile, answers_by_relation(profile, 4), questions, steps, np.random.default_rng
    )


def test_who_knows_the_facts_tells_them() -> None:
    ring, teacher = ring_and_teacher()
    facts = all_told(teacher, QueryCounts().with_facts(ring), everyone(12, 2))
    assert sorted(facts.tolist()) == sorted(with_inverses(ring).tolist())


@pytest.mark.parametrize(("questions", "steps", "asked"), [(4, 3, 12), (8, 3, 24), (100, 2, 24)])
def test_an_epoch_asks_no_question_twice_and_the_next_asks_others(
    questions: int, steps: int, asked: int
) -> None:
    ring, teacher = ring_and_teacher()
    retelling = retelling_of(teacher, QueryCounts().with_facts(ring), questions, steps)
    first, second = (
        np.concatenate([retelling.facts(epoch * steps + step) for step in range(steps)])
        for epoch in (0, 1)
    )
    assert len(np.unique(first, axis=0)) == len(first) == asked
    assert (sorted(first.tolist()) == sorted(second.tolist())) == (asked == 24)
    again = retelling_of(teacher, QueryCounts().with_facts(ring), questions, steps)
    assert np.array_equal(again.facts(steps), retelling.facts(steps))


@pytest.mark.parametrize(("questions", "tellings"), [(4, 2), (8, 1)], ids=["some", "all"])
def test_what_every_epoch_asks_is_told_once(
    questions: int, tellings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring, teacher = ring_and_teacher()
    retelling = retelling_of(teacher, QueryCounts().with_facts(ring), questions, 3)
    asked: list[int] = []

    def counted(*given: object) -> Facts:
        asked.append(1)
        return generate(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(retelling_room, "told", counted)
    for step in range(6):
        assert len(retelling.facts(step))
    assert len(asked) == tellings


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_a_softmax_over_all_runs_over_some_where_facts_are_told(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against torch alone, one fact at a time."""
    some_of = partial(sample_candidates, all_below=20)
    monkeypatch.setattr(retelling_room, "sample_candidates", some_of)
    config = paper_config(dim=8, loss="softmax", score="complex", backend=backend)
    model = Model(config)
    model.tables = made_tables(2, 30, 2, 8, scale=1.0)
    teacher = teacher_of("complex", made_tables(1, 9, 2, 8, scale=1.0))
    retelling = retelling_of(teacher, QueryCounts().with_facts(as_facts(PAST)), 3, 3)
    gradient = Gradient.like(model.tables)
    loss = retelling.add_gradient(model, 0.3, 1, gradient, np.random.default_rng(4))

    facts, generator = retelling.facts(1), np.random.default_rng(4)
    next(batches(facts, len(facts), 0, 30, generator))
    sample = some_of(facts, 30, RIVALS, generator, POWER)
    assert sample is not None
    some, importance = sample.entities.tolist(), torch.from_numpy(sample.importance)
    assert 5 <= len(some) < 20
    leaves = model.tables.map(lambda table: table.clone().requires_grad_())
    expected = torch.zeros(())
    for head, relation, tail in facts.tolist():
        query = model.score.compose(leaves.entity[head], leaves.relation[relation])
        answers = (leaves.entity[some] @ query + importance.log()).log_softmax(0)
        expected = expected - answers[some.index(tail)] / len(facts)
    assert loss == pytest.approx(0.3 * expected.item(), rel=1e-4)
    for part, flow in zip(gradient, torch.autograd.grad(expected, list(leaves)), strict=True):
        torch.testing.assert_close(part.values, 0.3 * flow, rtol=1e-3, atol=1e-6)
        assert not part.values[part.touched == 0].any()


@pytest.mark.parametrize("objective", ["margin", "sampled", "softmax"])
@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("sharing", [1, 2])
def test_told_facts_add_their_share_of_the_gradient(
    objective: str, backend: str, sharing: int
) -> None:
    config = paper_config(dim=8, loss=objective, backend=backend, n3=0.1, negatives=3)
    model = Model(config.with_changes({"negatives_shared_by": sharing}))
    model.tables = made_tables(2, 12, 2, 8, scale=1.0)
    teacher = teacher_of("transe", made_tables(1, 9, 2, 8, scale=1.0))
    retelling = retelling_of(teacher, QueryCounts().with_facts(as_facts(PAST)), 3, 3)
    new, gradient = Gradient.like(model.tables), Gradient.like(model.tables)
    (batch,) = batches(with_inverses(ONE_TO_MANY), 8, model.negatives, 12, np.random.default_rng(3))
    for each in (new, gradient):
        model.loss.add_gradient(model.tables, batch, each)
    loss = retelling.add_gradient(model, 0.3, 1, gradient, np.random.default_rng(4))

    generator, old, facts = (
        np.random.default_rng(4),
        Gradient.like(model.tables),
        retelling.facts(1),
    )
    (batch,) = batches(facts, len(facts), model.negatives, 12, generator, sharing)
    assert loss == pytest.approx(0.3 * model.loss.add_gradient(model.tables, batch, old))
    for part, mine, yours in zip(gradient, new, old, strict=True):
        expected = mine.values + 0.3 * yours.values
        torch.testing.assert_close(part.values, expected, rtol=1e-4, atol=1e-6)
        assert torch.equal(part.touched, mine.touched | yours.touched)
