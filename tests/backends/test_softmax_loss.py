"""The softmax over all entities: term by term, by matrix products and by autograd."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.backends.made import (
    BACKENDS,
    NUMBA,
    TORCH,
    batch_of,
    built,
    gradient_of,
    made_batch,
    made_tables,
)
from tests.methods import plain_python as paper
from tests.models import plain_scores as plain

from lkge.backends import Backend
from lkge.backends import torch_softmax as room
from lkge.backends.numba import softmax as kernel
from lkge.backends.numba.softmax import FusedSoftmax
from lkge.backends.torch_losses import SampledSoftmaxLoss
from lkge.backends.torch_softmax import SoftmaxLoss
from lkge.data.batches import Batch, Sample
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import SCORES, Bilinear, Score, score_named

FACTS = [(0, 0, 1), (2, 3, 4), (5, 1, 0), (1, 2, 1), (0, 0, 3)]
BATCH = batch_of(*((fact, []) for fact in FACTS))
BILINEAR = ("distmult", "complex")

pytestmark = pytest.mark.usefixtures("one_thread")


def bilinear(name: str) -> Bilinear:
    score = score_named(name)
    assert isinstance(score, Bilinear)
    return score


def squares_of(
    objective: FusedSoftmax | SoftmaxLoss, tables: Parameters, batch: Batch
) -> Parameters:
    total = tables.map(torch.zeros_like)
    objective.add_squares(tables, batch, total)
    return total


def require_close(mine: Gradient, twin: Gradient) -> None:
    for one, other in zip(mine, twin, strict=True):
        torch.testing.assert_close(one.values, other.values, rtol=1e-4, atol=1e-6)
        assert torch.equal(one.touched, other.touched)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, NUMBA) for name in BILINEAR), *((name, TORCH) for name in (*BILINEAR, "transe"))],
)
def test_value_and_slope_are_those_of_the_formula(
    name: str, backend: Backend, smoothing: float
) -> None:
    tables = made_tables(1, 6, 2, 4, scale=1.0)
    rows = paper.Rows(tables.entity.tolist(), tables.relation.tolist())
    score = plain.SCORES[name]

    def formula(at: paper.Rows) -> float:
        return plain.softmax_loss(score, at, FACTS, smoothing)

    objective = built("softmax", backend, score_named(name), smoothing)
    loss, gradient = gradient_of(objective, tables, BATCH)
    assert loss == pytest.approx(formula(rows), rel=1e-5)
    slope = paper.slope(formula, rows)
    for part, expected in zip(gradient, (slope.entity, slope.relation), strict=True):
        torch.testing.assert_close(part.values, torch.tensor(expected), rtol=1e-3, atol=1e-5)
    assert gradient.entity.touched.all()
    assert gradient.relation.rows().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("name", BILINEAR)
@pytest.mark.parametrize("block_bytes", [1, 8 << 20], ids=["many blocks", "one block"])
def test_products_and_autograd_agree(
    name: str, smoothing: float, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "BLOCK_BYTES", block_bytes)
    tables = made_tables(2, 45, 3, 8, scale=1.0)
    batch = made_batch(3, 70, 0, 45, 3)
    mine, gradient = gradient_of(FusedSoftmax(bilinear(name), smoothing), tables, batch)
    theirs, twin = gradient_of(SoftmaxLoss(score_named(name), smoothing), tables, batch)
    assert mine == pytest.approx(theirs, rel=1e-5)
    require_close(gradient, twin)


@pytest.mark.parametrize("name", sorted(SCORES))
def test_any_score_is_differentiated_in_blocks_as_in_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, score = made_tables(4, 9, 2, 8), score_named(name)
    batch = made_batch(5, 12, 0, 9, 2)
    facts = torch.from_numpy(batch.facts).long()
    entity, relation = (table.clone().requires_grad_() for table in tables)
    unit, between = score.prepare_entities(entity), score.prepare_relations(relation)
    scores = score.score(
        unit[facts[:, 0]].unsqueeze(1), between[facts[:, 1]].unsqueeze(1), unit.unsqueeze(0)
    )
    expected = torch.nn.functional.cross_entropy(scores, facts[:, 2])
    flows = torch.autograd.grad(expected, [entity, relation])
    for most in (1, 1 << 24):
        monkeypatch.setattr(room, "MOST_NUMBERS", most)
        loss, gradient = gradient_of(SoftmaxLoss(score), tables, batch)
        assert loss == pytest.approx(float(expected.detach()), rel=1e-5)
        for part, flow in zip(gradient, flows, strict=True):
            torch.testing.assert_close(part.values, flow, rtol=1e-4, atol=1e-6)


@BACKENDS
def test_scores_of_any_size_give_finite_numbers(backend: Backend) -> None:
    """The exponential of such scores is far beyond what a float can hold."""
    tables = made_tables(1, 6, 2, 4, scale=30.0)
    objective = built("softmax", backend, score_named("complex"))
    loss, gradient = gradient_of(objective, tables, BATCH)
    assert 1e3 < loss < float("inf")
    assert all(torch.isfinite(part.values).all() for part in gradient)


def test_the_gradient_is_added_to_what_is_there() -> None:
    tables, batch = made_tables(1, 6, 2, 4), BATCH
    objective = FusedSoftmax(bilinear("complex"))
    _, once = gradient_of(objective, tables, batch)
    _, twice = gradient_of(objective, tables, batch)
    objective.add_gradient(tables, batch, twice)
    for one, two in zip(once, twice, strict=True):
        torch.testing.assert_close(2 * one.values, two.values)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("name", BILINEAR)
def test_squares_of_single_facts(
    name: str, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among them facts whose head is their tail."""
    monkeypatch.setattr(kernel, "BLOCK_BYTES", 1)
    tables = made_tables(2, 10, 3, 8, scale=1.0)
    batch = made_batch(3, 40, 0, 10, 3)
    batch.facts[:5, 2] = batch.facts[:5, 0]
    mine = squares_of(FusedSoftmax(bilinear(name), smoothing), tables, batch)
    theirs = squares_of(SoftmaxLoss(score_named(name), smoothing), tables, batch)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
        assert one.any()


def test_a_batch_with_corruptions_is_compared_with_these_alone() -> None:
    tables, batch = made_tables(1, 9, 2, 4), made_batch(2, 7, 3, 9, 2)
    objective = built("softmax", NUMBA, score_named("complex"), 0.1)
    loss, gradient = gradient_of(objective, tables, batch)
    same, twin = gradient_of(
        SampledSoftmaxLoss(score_named("complex"), smoothing=0.1), tables, batch
    )
    assert loss == same
    require_close(gradient, twin)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, NUMBA) for name in BILINEAR), *((name, TORCH) for name in (*BILINEAR, "transe"))],
)
def test_a_sample_competes_as_often_as_it_stands_for_others(
    name: str, backend: Backend, smoothing: float
) -> None:
    """One that stands for k of all is as k entities with the same row."""
    tables, score = made_tables(1, 9, 2, 4, scale=1.0), score_named(name)
    sample = Sample(np.array([0, 1, 3, 4, 7]), np.array([1, 1, 1, 1, 3], np.float32))
    batch = replace(BATCH, sample=sample)
    objective = built("softmax", backend, score, smoothing)
    loss, gradient = gradient_of(objective, tables, batch)

    leaves = tables.map(lambda table: table.clone().requires_grad_())
    entity = score.prepare_entities(leaves.entity)
    relation = score.prepare_relations(leaves.relation)
    weights, total = torch.from_numpy(sample.importance), torch.zeros(())
    for head, between, tail in FACTS:
        query = score.compose(entity[head], relation[between])[None]
        scores = score.candidates(query, entity[sample.entities])[0]
        counted = (weights * scores.exp()).log() - (weights * scores.exp()).sum().log()
        right = counted[sample.entities.tolist().index(tail)]
        total = total - ((1 - smoothing) * right + smoothing * counted.mean()) / len(FACTS)
    assert loss == pytest.approx(total.item(), rel=1e-4)
    for part, flow in zip(gradient, torch.autograd.grad(total, list(leaves)), strict=True):
        torch.testing.assert_close(part.values, flow, rtol=1e-4, atol=1e-6)
    heads = [head for head, _, _ in FACTS]
    assert gradient.entity.rows().tolist() == sorted({*heads, *sample.entities.tolist()})


def test_all_other_entities_as_corruptions_are_all_entities() -> None:
    tables, entities = made_tables(1, 6, 2, 4), set(range(6))
    facts = np.array(FACTS, dtype=np.int32)
    others = np.array([sorted(entities - {o}) for _, _, o in FACTS], dtype=np.int32)
    batch = Batch(facts, others, np.ones(others.shape, np.bool_))
    loss, gradient = gradient_of(SampledSoftmaxLoss(score_named("complex")), tables, batch)
    same, twin = gradient_of(SoftmaxLoss(score_named("complex")), tables, BATCH)
    assert loss == pytest.approx(same, rel=1e-6)
    require_close(gradient, twin)


@pytest.mark.parametrize(
    ("name", "backend", "expected"),
    [
        ("complex", NUMBA, FusedSoftmax),
        ("distmult", NUMBA, FusedSoftmax),
        ("complex", TORCH, SoftmaxLoss),
        ("transe", NUMBA, SoftmaxLoss),
        ("rotate", NUMBA, SoftmaxLoss),
    ],
)
def test_products_serve_bilinear_scores_where_they_are_wanted(
    name: str, backend: Backend, expected: type
) -> None:
    objective = built("softmax", backend, score_named(name), 0.1)
    assert type(objective) is expected
    assert objective.smoothing == 0.1


@pytest.mark.parametrize("name", BILINEAR)
def test_what_the_chain_rule_by_rows_rests_on(name: str) -> None:
    """⟨h·r, g⟩ = ⟨h, towards(r, g)⟩ = ⟨r, towards(h, g)⟩; rows are scored as they are."""
    score: Score = bilinear(name)
    assert isinstance(score, Bilinear)
    h, r, g = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))
    inner = (score.compose(h, r) * g).sum(-1)
    torch.testing.assert_close((h * score.towards(r, g)).sum(-1), inner)
    torch.testing.assert_close((r * score.towards(h, g)).sum(-1), inner)
    assert torch.equal(score.prepare_entities(h), h)
    assert torch.equal(score.prepare_relations(r), r)
