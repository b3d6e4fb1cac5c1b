"""Eq. (7) term by term, and which objective serves which score."""

from __future__ import annotations

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

from lkge.backends import Backend
from lkge.backends.numba.margin import FusedMargin
from lkge.backends.torch_losses import (
    MarginLoss,
    NegativesLoss,
    SampledSoftmaxLoss,
    add_squares_singly,
)
from lkge.models.scores import SCORES, TransE, score_named

CORRUPTED = [
    ((0, 0, 1), [(2, True), (3, False)]),
    ((2, 3, 4), [(0, False), (1, False)]),
    ((5, 1, 0), [(2, True), (5, True)]),
    ((1, 2, 3), [(4, True), (0, False)]),
]
"""Facts, each with the entities put in and whether on the object side."""

WITH_NEGATIVES = [
    ((s, r, o), [(s, r, e) if on_object else (e, r, o) for e, on_object in put_in])
    for (s, r, o), put_in in CORRUPTED
]
"""The same, with the negative facts written out."""


class OtherScore(TransE):
    """A score that the kernel does not know."""

    name = "other"


@BACKENDS
@pytest.mark.parametrize("margin", [0.5, 8.0])
def test_the_loss_on_new_facts_is_eq_7(backend: Backend, margin: float) -> None:
    """Value and slope; at the smaller margin there are facts on both sides of the hinge."""
    tables = made_tables(1, 6, 2, 4)
    rows = paper.Rows(tables.entity.tolist(), tables.relation.tolist())
    active = sum(paper.margin_loss(rows, [pair], margin) > 0 for pair in WITH_NEGATIVES)
    assert active == 4 if margin == 8 else 0 < active < 4

    objective = built("margin", backend, TransE(), margin)
    loss, gradient = gradient_of(objective, tables, batch_of(*CORRUPTED))
    slope = paper.slope(lambda at: paper.margin_loss(at, WITH_NEGATIVES, margin), rows)
    assert loss == pytest.approx(paper.margin_loss(rows, WITH_NEGATIVES, margin), rel=1e-5)
    for part, expected in zip(gradient, (slope.entity, slope.relation), strict=True):
        torch.testing.assert_close(part.values, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_the_kernel_serves_transe_where_it_is_wanted() -> None:
    assert type(built("margin", NUMBA, TransE(), 8.0)) is FusedMargin
    assert type(built("margin", TORCH, TransE(), 8.0)) is MarginLoss


def test_any_other_score_is_differentiated_by_torch() -> None:
    objective = built("margin", NUMBA, OtherScore(), 2.5)
    assert type(objective) is MarginLoss
    assert objective.margin == 2.5
    assert objective.score.name == "other"


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("kind", ["margin", "sampled"])
def test_squares_of_all_facts_at_once_are_those_of_one_after_the_other(
    name: str, kind: str
) -> None:
    """Of so few entities that a fact has one in several places, and shares it with others."""
    score = score_named(name)
    objective: NegativesLoss = (
        MarginLoss(score, 1.0) if kind == "margin" else SampledSoftmaxLoss(score, 1.0, 0.1)
    )
    tables, batch = made_tables(1, 6, 2, 8, scale=1.0), made_batch(2, 20, 4, 6, 2)
    together, singly = tables.map(torch.zeros_like), tables.map(torch.zeros_like)
    objective.add_squares(tables, batch, together)
    add_squares_singly(objective, tables, batch, singly)
    assert singly.entity.any()
    for mine, theirs in zip(together, singly, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", sorted(SCORES))
def test_a_fact_without_a_distance_has_a_finite_gradient(name: str) -> None:
    tables = made_tables(1, 6, 2, 4).map(torch.zeros_like)
    loss = SampledSoftmaxLoss(score_named(name))
    _, gradient = gradient_of(loss, tables, batch_of(*CORRUPTED))
    assert all(part.values.isfinite().all() for part in gradient)
