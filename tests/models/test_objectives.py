"""Eq. (7) term by term, and which objective serves which score."""

from __future__ import annotations

import pytest
import torch
from tests.kernels.made import batch_of, gradient_of, made_batch, made_tables
from tests.methods import plain_python as paper

from lkge.models.objectives import FusedMargin, PlainMargin, margin_objective
from lkge.models.objectives.base import add_squares_singly
from lkge.models.objectives.contrast import Contrast, SampledSoftmax
from lkge.models.objectives.fused_contrast import contrast
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


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("margin", [0.5, 8.0])
def test_the_loss_on_new_facts_is_eq_7(fused: bool, margin: float) -> None:
    """Value and slope; at the smaller margin there are facts on both sides of the hinge."""
    tables = made_tables(1, 6, 2, 4)
    rows = paper.Rows(tables.entity.tolist(), tables.relation.tolist())
    active = sum(paper.margin_loss(rows, [pair], margin) > 0 for pair in WITH_NEGATIVES)
    assert active == 4 if margin == 8 else 0 < active < 4

    objective = margin_objective(TransE(), margin, fused)
    loss, gradient = gradient_of(objective, tables, batch_of(*CORRUPTED))
    slope = paper.slope(lambda at: paper.margin_loss(at, WITH_NEGATIVES, margin), rows)
    assert loss == pytest.approx(paper.margin_loss(rows, WITH_NEGATIVES, margin), rel=1e-5)
    for part, expected in zip(gradient, (slope.entity, slope.relation), strict=True):
        torch.testing.assert_close(part.values, torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_the_kernel_serves_transe_where_it_is_wanted() -> None:
    assert isinstance(margin_objective(TransE(), 8.0, fused=True), FusedMargin)
    assert isinstance(margin_objective(TransE(), 8.0, fused=False), PlainMargin)


def test_any_other_score_is_differentiated_by_torch() -> None:
    objective = margin_objective(OtherScore(), 2.5, fused=True)
    assert isinstance(objective, PlainMargin)
    assert objective.margin == 2.5
    assert objective.score.name == "other"


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("kind", ["margin", "sampled"])
def test_squares_of_all_facts_at_once_are_those_of_one_after_the_other(
    name: str, kind: str
) -> None:
    """Of so few entities that a fact has one in several places, and shares it with others."""
    score = score_named(name)
    objective: Contrast = (
        PlainMargin(score, 1.0) if kind == "margin" else SampledSoftmax(score, 1.0, 0.1)
    )
    tables, batch = made_tables(1, 6, 2, 8, scale=1.0), made_batch(2, 20, 4, 6, 2)
    together, singly = tables.map(torch.zeros_like), tables.map(torch.zeros_like)
    objective.add_squares(tables, batch, together)
    add_squares_singly(objective, tables, batch, singly)
    assert singly.entity.any()
    for mine, theirs in zip(together, singly, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("kind", ["margin", "sampled", "smooth", "weighted"])
@pytest.mark.parametrize("dim", [2, 8, 34])
def test_kernels_and_autograd_agree(name: str, kind: str, dim: int) -> None:
    score = score_named(name)
    plain: Contrast = {
        "margin": PlainMargin(score, 2.0),
        "sampled": SampledSoftmax(score),
        "smooth": SampledSoftmax(score, smoothing=0.1),
        "weighted": SampledSoftmax(score, adversarial=2.0, smoothing=0.2),
    }[kind]
    tables, batch = made_tables(1, 9, 2, dim, scale=1.0), made_batch(2, 20, 4, 9, 2)
    objective = contrast(plain, fused=True)
    assert (objective is plain) == (score.is_bilinear and kind == "margin")
    mine, gradient = gradient_of(objective, tables, batch)
    theirs, twin = gradient_of(plain, tables, batch)
    assert mine == pytest.approx(theirs, rel=1e-5)
    for one, other in zip(gradient, twin, strict=True):
        torch.testing.assert_close(one.values, other.values, rtol=1e-3, atol=1e-5)
        assert torch.equal(one.touched, other.touched)


@pytest.mark.parametrize("name", sorted(SCORES))
def test_a_fact_without_a_distance_has_a_finite_gradient(name: str) -> None:
    tables = made_tables(1, 6, 2, 4).map(torch.zeros_like)
    _, gradient = gradient_of(
        contrast(SampledSoftmax(score_named(name)), fused=True), tables, batch_of(*CORRUPTED)
    )
    assert all(part.values.isfinite().all() for part in gradient)


def test_what_is_not_for_kernels_stays_plain() -> None:
    for name in SCORES:
        plain = SampledSoftmax(score_named(name))
        assert contrast(plain, fused=False) is plain
        assert contrast(plain, fused=True) is not plain
    unknown = SampledSoftmax(OtherScore())
    assert contrast(unknown, fused=True) is unknown
