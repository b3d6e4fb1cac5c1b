"""The replay model: how it fits facts, keeps them, generates them and drops retracted ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS, NUMBA, TORCH, made_tables
from tests.methods.hand_made import as_facts

from lkge.backends import Backend, torch_softmax
from lkge.data.snapshots import Facts, among, with_inverses
from lkge.methods.replay import Entities, answers_by_relation
from lkge.methods.replay_model import QueryBlock, ReplayModel, ReplayModelConfig, query_blocks
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


def replay_model(
    score: Bilinear | None = None,
    tables: Parameters | None = None,
    backend: Backend = NUMBA,
    separate: bool = False,
    **changes: Any,
) -> ReplayModel:
    """A replay model of no facts, if no parameters are given."""
    config = ReplayModelConfig(**changes)
    given = no_parameters(DIM, "cpu") if tables is None else tables
    return ReplayModel(score or ComplEx(), given, config, backend, separate)


def trained(facts: Facts, score: Bilinear | None = None) -> tuple[ReplayModel, QueryCounts]:
    """A replay model of these facts, and their query counts."""
    empty = replay_model(score)
    model = empty.with_facts(facts, tables_of(), QueryCounts(), np.random.default_rng(0))
    return model, QueryCounts().with_facts(facts)


def all_facts(model: ReplayModel, counts: QueryCounts) -> Facts:
    return model.generate(counts, np.arange(len(counts.counts)))


@pytest.mark.parametrize("score", [ComplEx(), DistMult()], ids=["complex", "distmult"])
@pytest.mark.parametrize("relation", [0, 1])
@BACKENDS
def test_a_step_follows_the_gradient_of_the_loss(
    score: Bilinear, relation: int, backend: Backend
) -> None:
    """Against torch alone, one query at a time; Adagrad's sums are its squares."""
    model = replay_model(score, backend=backend, replay_model_tolerance=1e-9)
    facts = with_inverses(as_facts([(0, 0, 5), (0, 0, 6), (1, 0, 5), (2, 0, 8)]))
    candidates = np.arange(5, 10) if relation == 0 else np.arange(3)
    (block,) = query_blocks(facts[facts[:, 1] == relation], [candidates] * 2)
    tables, sums = made_tables(1, 10, 1, 8, scale=1.0), made_tables(1, 10, 1, 8, scale=0.0)
    leaves = tables.map(lambda table: table.clone().requires_grad_())
    loss = torch.zeros(())
    for head, _, tail in facts[facts[:, 1] == relation].tolist():
        query = score.compose(leaves.entity[head], leaves.relation[relation])
        answers = leaves.entity[torch.from_numpy(candidates)] @ query
        loss = loss - answers.log_softmax(0)[candidates.tolist().index(tail)]
    wanted = torch.autograd.grad(loss, list(leaves))
    before = tables.clone()
    assert model._step(tables, sums, block)
    config = model.config
    for table, old, summed, flow in zip(tables, before, sums, wanted, strict=True):
        torch.testing.assert_close(summed, flow.square(), rtol=1e-4, atol=1e-8)
        damped = (flow.square() + config.replay_model_damping).sqrt()
        steps = config.replay_model_learning_rate * flow / damped
        assert steps.any()
        torch.testing.assert_close(old - table, steps, rtol=1e-3, atol=1e-5)


def test_the_fused_step_equals_the_plain_one() -> None:
    rows, gradient = torch.tensor([5, 0, 7]), made_tables(3, 3, 1, 8, scale=1.0).entity
    fused, plain = (
        (made_tables(1, 9, 1, 8, scale=1.0).entity, made_tables(2, 9, 1, 8, scale=1.0).entity.abs())
        for _ in range(2)
    )
    before = fused[0].clone()
    for backend, (table, sums) in ((NUMBA, fused), (TORCH, plain)):
        backend.adagrad_rows(table, gradient, sums, rows, 0.1, 0.1)
    for mine, theirs in zip(fused, plain, strict=True):
        torch.testing.assert_close(mine, theirs)
    assert (before != fused[0]).any(1).nonzero().squeeze(1).tolist() == [0, 5, 7]


@pytest.mark.parametrize("score", [ComplEx(), DistMult()], ids=["complex", "distmult"])
def test_facts_without_any_rule_are_all_fitted(score: Bilinear) -> None:
    facts = made_facts(1, 100)
    model, counts = trained(facts, score)
    assert among(all_facts(model, counts), with_inverses(facts)).mean() > 0.98
    untrained = replay_model(score, tables_of())
    assert among(all_facts(untrained, counts), with_inverses(facts)).mean() < 0.5


def test_old_facts_stay_fitted_when_more_are_learned() -> None:
    facts = [made_facts(seed, 60, entities) for seed, entities in ((1, 40), (2, 50), (3, 60))]
    model, counts = replay_model(), QueryCounts()
    for number, part in enumerate(facts):
        rows = tables_of(40 + 10 * number)
        model = model.with_facts(part, rows, counts, np.random.default_rng(number))
        counts = counts.with_facts(part)
        assert len(model.tables.entity) == len(rows.entity)
    for part in facts:
        assert among(with_inverses(part), all_facts(model, counts)).mean() > 0.97


def test_a_separate_replay_model_has_rows_of_its_own_and_keeps_old_facts() -> None:
    """Whatever the model's rows are, and however wide."""
    facts, wide = [made_facts(seed, 60) for seed in (1, 2)], 2 * DIM
    empty = no_parameters(wide, "cpu")
    model, counts = replay_model(tables=empty, separate=True), QueryCounts()
    for number, part in enumerate(facts):
        model_rows = tables_of().map(torch.zeros_like)
        model = model.with_facts(part, model_rows, counts, np.random.default_rng(number))
        counts = counts.with_facts(part)
    assert model.separate
    assert model.tables.entity.shape == (ENTITIES, wide)
    for part in facts:
        assert among(with_inverses(part), all_facts(model, counts)).mean() > 0.97


def test_retracted_facts_are_not_generated_and_the_other_answers_of_their_query_are() -> None:
    facts = np.concatenate([as_facts([(0, 0, k) for k in range(1, 7)]), made_facts(4, 80)])
    facts = np.unique(facts, axis=0)
    model, counts = trained(facts)
    gone = facts[(facts[:, 0] == 0) & (facts[:, 1] == 0)][:3]
    assert among(gone, all_facts(model, counts)).all()
    left, rest = counts.without(gone), facts[~among(facts, gone)]
    without_them = model.without(gone, counts, np.random.default_rng(1))
    generated = all_facts(without_them, left)
    assert not among(with_inverses(gone), generated).any()
    assert among(with_inverses(rest), generated).mean() > 0.97


def test_a_retraction_of_the_only_answer_changes_no_row() -> None:
    alone = as_facts([(50, 0, 51)])
    model, counts = trained(np.concatenate([made_facts(4, 80, entities=50), alone]))
    same = model.without(alone, counts, np.random.default_rng(1))
    assert torch.equal(same.tables.entity, model.tables.entity)


@pytest.mark.parametrize("most", [1, 200, 1 << 24], ids=["a query", "some", "a relation"])
def test_blocks_have_every_fact_once_whatever_their_size(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_softmax, "MOST_NUMBERS", most)
    facts = with_inverses(made_facts(5, 100))
    candidates = answers_by_relation(QueryCounts().with_facts(made_facts(5, 100)), 2 * RELATIONS)
    found = [
        (int(block.heads[row]), block.relation, int(block.candidates[column]))
        for block in query_blocks(np.concatenate([facts, facts[:9]]), candidates)
        for row, column in zip(block.rows, block.columns, strict=True)
    ]
    assert sorted(found) == sorted(map(tuple, facts.tolist()))


def test_without_facts_nothing_is_trained() -> None:
    tables = tables_of()
    nothing = np.empty((0, 3), dtype=np.int32)
    same = replay_model()._fit(nothing, tables, QueryCounts(), np.random.default_rng(0))
    assert torch.equal(same.tables.entity, tables.entity)


def test_the_same_random_numbers_give_the_same_rows() -> None:
    (one, _), (other, _) = trained(made_facts(1, 50)), trained(made_facts(1, 50))
    assert torch.equal(one.tables.entity, other.tables.entity)


def test_a_block_that_is_all_fitted_changes_nothing_and_is_left_out_of_the_next_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = replay_model(
        replay_model_tolerance=100.0, replay_model_min_steps=1, replay_model_passes=5
    )
    step, seen = ReplayModel._step, []

    def noted(self: ReplayModel, tables: Parameters, sums: Parameters, block: QueryBlock) -> bool:
        seen.append(block.relation)
        return step(self, tables, sums, block)

    monkeypatch.setattr(ReplayModel, "_step", noted)
    facts, tables = with_inverses(made_facts(1, 30)), tables_of()
    counts = QueryCounts().with_facts(made_facts(1, 30))
    fitted = model._fit(facts, tables, counts, np.random.default_rng(1)).tables
    relations = np.unique(facts[:, 1]).tolist()
    assert sorted(seen) == sorted(3 * relations)
    assert all(map(torch.equal, fitted, tables))


@pytest.mark.parametrize(("old", "new", "again"), [(60, 5, 10), (5, 60, 10)])
def test_no_more_old_queries_are_trained_again_than_there_are_new_facts_and_inverses(
    old: int, new: int, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, counts = trained(made_facts(1, old))
    generate, sizes = ReplayModel.generate, []

    def noted(self: ReplayModel, counts: QueryCounts, places: Entities) -> Facts:
        sizes.append(len(places))
        return generate(self, counts, places)

    monkeypatch.setattr(ReplayModel, "generate", noted)
    model.with_facts(made_facts(2, new), tables_of(), counts, np.random.default_rng(1))
    assert sizes == [min(again, len(counts.counts))]
