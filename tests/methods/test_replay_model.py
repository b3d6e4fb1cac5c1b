"""Facts that are known by heart: how they are learned, kept, told and unlearned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from lkge.models.objectives import softmax
from tests.backends.made import made_tables
from tests.methods.hand_made import as_facts

from lkge.data.snapshots import Facts, among, with_inverses
from lkge.methods.parts import heart as room
from lkge.methods.replay import Entities, answers_by_relation
from lkge.methods.replay_model import ReplayModel, learned_by_heart, query_blocks
from lkge.methods.replay_queries import QueryCounts
from lkge.models.parameters import Parameters, no_parameters
from lkge.models.scores import Bilinear, ComplEx, DistMult

pytestmark = pytest.mark.usefixtures("one_thread")

ENTITIES, RELATIONS, DIM = 60, 3, 32


def made_facts(seed: int, count: int, entities: int = ENTITIES) -> Facts:
    """Facts that follow no rule."""
    draw = np.random.default_rng(seed)
    facts = np.column_stack(
        [
            draw.integers(entities, size=count),
            2 * draw.integers(RELATIONS, size=count),
            draw.integers(entities, size=count),
        ]
    )
    return np.unique(facts, axis=0).astype(np.int32)


def tables_of(entities: int = ENTITIES) -> Parameters:
    return made_tables(3, entities, RELATIONS, DIM, scale=0.1)


def taught(facts: Facts, score: Bilinear | None = None) -> tuple[ReplayModel, QueryCounts]:
    """A heart that knows these facts, and their profile."""
    empty = ReplayModel(score or ComplEx(), no_parameters(DIM, "cpu"))
    known = empty.with_facts(facts, tables_of(), QueryCounts(), np.random.default_rng(0))
    return known, QueryCounts().with_facts(facts)


def all_told(heart: ReplayModel, profile: QueryCounts) -> Facts:
    return heart.generate(profile, np.arange(len(profile.counts)))


@pytest.mark.parametrize("score", [ComplEx(), DistMult()], ids=["complex", "distmult"])
@pytest.mark.parametrize("relation", [0, 1])
def test_a_step_follows_the_gradient_of_the_loss(
    score: Bilinear, relation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against torch alone, one question at a time; Adagrad's sums are its squares."""
    monkeypatch.setattr(room, "KNOWN", -1.0)
    facts = with_inverses(as_facts([(0, 0, 5), (0, 0, 6), (1, 0, 5), (2, 0, 8)]))
    candidates = np.arange(5, 10) if relation == 0 else np.arange(3)
    (lesson,) = query_blocks(facts[facts[:, 1] == relation], [candidates] * 2)
    tables, sums = made_tables(1, 10, 1, 8, scale=1.0), made_tables(1, 10, 1, 8, scale=0.0)
    leaves = tables.map(lambda table: table.clone().requires_grad_())
    loss = torch.zeros(())
    for head, _, tail in facts[facts[:, 1] == relation].tolist():
        query = score.compose(leaves.entity[head], leaves.relation[relation])
        answers = leaves.entity[torch.from_numpy(candidates)] @ query
        loss = loss - answers.log_softmax(0)[candidates.tolist().index(tail)]
    wanted = torch.autograd.grad(loss, list(leaves))
    before = tables.clone()
    room._learn(score, tables, sums, lesson)
    for table, old, summed, flow in zip(tables, before, sums, wanted, strict=True):
        torch.testing.assert_close(summed, flow.square(), rtol=1e-4, atol=1e-8)
        steps = room.LEARNING_RATE * flow / (flow.square() + room.EPSILON).sqrt()
        assert steps.any()
        torch.testing.assert_close(old - table, steps, rtol=1e-3, atol=1e-5)


def test_the_fused_step_equals_the_plain_one() -> None:
    rows, gradient = torch.tensor([5, 0, 7]), made_tables(3, 3, 1, 8, scale=1.0).entity
    fused, plain = (
        (made_tables(1, 9, 1, 8, scale=1.0).entity, made_tables(2, 9, 1, 8, scale=1.0).entity.abs())
        for _ in range(2)
    )
    before = fused[0].clone()
    room._step_fused(*fused, rows, gradient)
    room._step_plain(*plain, rows, gradient)
    for mine, theirs in zip(fused, plain, strict=True):
        torch.testing.assert_close(mine, theirs)
    assert (before != fused[0]).any(1).nonzero().squeeze(1).tolist() == [0, 5, 7]


@pytest.mark.parametrize("score", [ComplEx(), DistMult()], ids=["complex", "distmult"])
def test_facts_without_any_rule_are_all_known(score: Bilinear) -> None:
    facts = made_facts(1, 100)
    known, profile = taught(facts, score)
    assert among(all_told(known, profile), with_inverses(facts)).mean() > 0.98
    unlearned = ReplayModel(score, tables_of())
    assert among(all_told(unlearned, profile), with_inverses(facts)).mean() < 0.5


def test_what_was_known_is_kept_when_more_is_learned() -> None:
    facts = [made_facts(seed, 60, entities) for seed, entities in ((1, 40), (2, 50), (3, 60))]
    known, profile = ReplayModel(ComplEx(), no_parameters(DIM, "cpu")), QueryCounts()
    for number, part in enumerate(facts):
        rows = tables_of(40 + 10 * number)
        known = known.with_facts(part, rows, profile, np.random.default_rng(number))
        profile = profile.with_facts(part)
        assert len(known.tables.entity) == len(rows.entity)
    for part in facts:
        assert among(with_inverses(part), all_told(known, profile)).mean() > 0.97


def test_a_heart_apart_has_rows_of_its_own_and_keeps_what_it_knew() -> None:
    """Whatever the model's rows are, and however wide."""
    facts, wide = [made_facts(seed, 60) for seed in (1, 2)], 2 * DIM
    known, profile = ReplayModel(ComplEx(), no_parameters(wide, "cpu"), apart=True), QueryCounts()
    for number, part in enumerate(facts):
        model_rows = tables_of().map(torch.zeros_like)
        known = known.with_facts(part, model_rows, profile, np.random.default_rng(number))
        profile = profile.with_facts(part)
    assert known.apart
    assert known.tables.entity.shape == (ENTITIES, wide)
    for part in facts:
        assert among(with_inverses(part), all_told(known, profile)).mean() > 0.97


def test_what_is_withdrawn_is_no_longer_told_and_the_rest_of_its_question_is() -> None:
    facts = np.concatenate([as_facts([(0, 0, k) for k in range(1, 7)]), made_facts(4, 80)])
    facts = np.unique(facts, axis=0)
    known, profile = taught(facts)
    gone = facts[(facts[:, 0] == 0) & (facts[:, 1] == 0)][:3]
    assert among(gone, all_told(known, profile)).all()
    left, rest = profile.without(gone), facts[~among(facts, gone)]
    forgotten = known.without(gone, profile, np.random.default_rng(1))
    told = all_told(forgotten, left)
    assert not among(with_inverses(gone), told).any()
    assert among(with_inverses(rest), told).mean() > 0.97


def test_to_withdraw_the_only_answer_is_to_leave_the_rest_alone() -> None:
    alone = as_facts([(50, 0, 51)])
    known, profile = taught(np.concatenate([made_facts(4, 80, entities=50), alone]))
    same = known.without(alone, profile, np.random.default_rng(1))
    assert torch.equal(same.tables.entity, known.tables.entity)


@pytest.mark.parametrize("most", [1, 200, 1 << 24], ids=["a question", "some", "a relation"])
def test_lessons_have_every_fact_once_whatever_their_size(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax, "MOST_NUMBERS", most)
    facts = with_inverses(made_facts(5, 100))
    candidates = answers_by_relation(QueryCounts().with_facts(made_facts(5, 100)), 2 * RELATIONS)
    found = [
        (int(lesson.heads[row]), lesson.relation, int(lesson.candidates[column]))
        for lesson in query_blocks(np.concatenate([facts, facts[:9]]), candidates)
        for row, column in zip(lesson.rows, lesson.columns, strict=True)
    ]
    assert sorted(found) == sorted(map(tuple, facts.tolist()))


def test_there_is_nothing_to_learn_from_no_facts() -> None:
    tables = tables_of()
    nothing = np.empty((0, 3), dtype=np.int32)
    same = learned_by_heart(ComplEx(), tables, nothing, [], np.random.default_rng(0))
    assert torch.equal(same.entity, tables.entity)


def test_the_same_numbers_teach_the_same() -> None:
    (one, _), (other, _) = taught(made_facts(1, 50)), taught(made_facts(1, 50))
    assert torch.equal(one.tables.entity, other.tables.entity)


def test_a_lesson_that_is_all_known_changes_nothing_and_is_left_out_of_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "KNOWN", 100.0)
    monkeypatch.setattr(room, "FEWEST_STEPS", 0)
    learn, asked = room._learn, []

    def noted(*parts: Any) -> bool:
        asked.append(parts[-1].relation)
        return learn(*parts)

    monkeypatch.setattr(room, "_learn", noted)
    facts, tables = with_inverses(made_facts(1, 30)), tables_of()
    everyone = [np.arange(len(tables.entity))] * len(tables.relation)
    taught = learned_by_heart(ComplEx(), tables, facts, everyone, np.random.default_rng(1), 5)
    relations = np.unique(facts[:, 1]).tolist()
    assert sorted(asked) == sorted(3 * relations)
    assert all(map(torch.equal, taught, tables))


@pytest.mark.parametrize(("old", "new", "again"), [(60, 5, 10), (5, 60, 10)])
def test_no_more_old_questions_are_learned_again_than_there_are_new_facts_and_inverses(
    old: int, new: int, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, profile = taught(made_facts(1, old))
    told, asked = ReplayModel.told, []

    def noted(self: ReplayModel, profile: QueryCounts, places: Entities) -> Facts:
        asked.append(len(places))
        return generate(self, profile, places)

    monkeypatch.setattr(ReplayModel, "told", noted)
    known.with_facts(made_facts(2, new), tables_of(), profile, np.random.default_rng(1))
    assert asked == [min(again, len(profile.counts))]
