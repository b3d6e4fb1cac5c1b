"""Penalties on rows, relation prediction, and which loss the settings mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.backends.made import (
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
from lkge.backends.numba.margin import FusedMargin
from lkge.backends.numba.softmax import FusedRelationPrediction, FusedSoftmax
from lkge.backends.torch_losses import MarginLoss, RowPenalty, SampledSoftmaxLoss, SumOfLosses
from lkge.backends.torch_softmax import RelationPrediction, SoftmaxLoss
from lkge.config import TrainingConfig
from lkge.errors import SettingsError
from lkge.models.losses import n3_by_degree
from lkge.models.model import Model
from lkge.models.scores import SCORES, Bilinear, score_named
from lkge.testing import paper_config

FACTS = [(0, 0, 1), (2, 3, 4), (5, 1, 0), (1, 2, 1), (0, 0, 3)]

BATCH = batch_of(*((fact, []) for fact in FACTS))

pytestmark = pytest.mark.usefixtures("one_thread")


def moduli(row: paper.Vector) -> list[float]:
    return [abs(number) for number in plain.complex_numbers(row)]


def absolutes(row: paper.Vector) -> list[float]:
    return [abs(number) for number in row]


@pytest.mark.parametrize(("n3", "l2"), [(0.3, 0.0), (0.0, 0.2), (0.3, 0.2)])
@pytest.mark.parametrize(
    ("name", "sizes"), [("distmult", absolutes), ("complex", moduli), ("rotate", moduli)]
)
def test_penalties_count_each_row_for_each_of_its_facts(
    name: str, sizes: Any, n3: float, l2: float
) -> None:
    tables = made_tables(1, 7, 2, 4, scale=1.0)
    rows = paper.Rows(tables.entity.tolist(), tables.relation.tolist())

    def formula(at: paper.Rows) -> float:
        return plain.row_penalty(sizes, at, FACTS, n3, l2)

    objective = RowPenalty(score_named(name), n3, l2)
    loss, gradient = gradient_of(objective, tables, BATCH)
    assert loss == pytest.approx(formula(rows), rel=1e-5)
    slope = paper.slope(formula, rows)
    for part, expected in zip(gradient, (slope.entity, slope.relation), strict=True):
        torch.testing.assert_close(part.values, torch.tensor(expected), rtol=1e-3, atol=1e-5)
    assert gradient.entity.rows().tolist() == [0, 1, 2, 3, 4, 5]


def test_a_zero_row_has_no_penalty_and_no_slope() -> None:
    tables = made_tables(1, 6, 2, 4)
    tables.entity[0] = 0
    _, gradient = gradient_of(RowPenalty(score_named("complex"), 1.0, 1.0), tables, BATCH)
    assert not gradient.entity.values[0].any()
    assert torch.isfinite(gradient.entity.values).all()


@pytest.mark.parametrize(
    ("name", "backend"),
    [("distmult", NUMBA), ("complex", NUMBA), ("distmult", TORCH), ("complex", TORCH),
     ("transe", TORCH)],
)  # fmt: skip
def test_relation_prediction_term_by_term(name: str, backend: Backend) -> None:
    tables = made_tables(1, 6, 2, 4, scale=1.0)
    rows = paper.Rows(tables.entity.tolist(), tables.relation.tolist())

    def formula(at: paper.Rows) -> float:
        return 0.5 * plain.relation_loss(plain.SCORES[name], at, FACTS)

    objective = built("relation_prediction", backend, score_named(name), 0.5)
    loss, gradient = gradient_of(objective, tables, BATCH)
    assert loss == pytest.approx(formula(rows), rel=1e-5)
    slope = paper.slope(formula, rows)
    for part, expected in zip(gradient, (slope.entity, slope.relation), strict=True):
        torch.testing.assert_close(part.values, torch.tensor(expected), rtol=1e-3, atol=1e-5)
    assert gradient.relation.touched.all()


@pytest.mark.parametrize("name", ["distmult", "complex"])
def test_relation_prediction_by_products_and_by_autograd(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_NUMBERS", 100)
    tables, score = made_tables(2, 20, 3, 8, scale=1.0), score_named(name)
    assert isinstance(score, Bilinear)
    batch = made_batch(3, 30, 0, 15, 3)
    mine, gradient = gradient_of(FusedRelationPrediction(score, 0.7), tables, batch)
    theirs, twin = gradient_of(RelationPrediction(score, 0.7), tables, batch)
    assert mine == pytest.approx(theirs, rel=1e-5)
    for one, other in zip(gradient, twin, strict=True):
        torch.testing.assert_close(one.values, other.values, rtol=1e-4, atol=1e-6)
        assert torch.equal(one.touched, other.touched)


def loss_with(**changes: Any) -> Any:
    return Model(paper_config(dim=8).with_changes(changes)).loss


def test_the_defaults_are_the_margin_loss_alone() -> None:
    assert isinstance(loss_with(), FusedMargin)
    assert type(loss_with(backend="torch")) is MarginLoss


def test_adversarial_weights_are_not_for_the_kernel_of_the_margin() -> None:
    objective = loss_with(adversarial_temperature=0.5, margin=3.0)
    assert (objective.adversarial, objective.margin) == (0.5, 3.0)
    tables, batch = made_tables(1, 9, 2, 8), made_batch(2, 7, 3, 9, 2)
    plain = MarginLoss(score_named("transe"), 3.0, 0.5)
    assert gradient_of(objective, tables, batch)[0] == gradient_of(plain, tables, batch)[0]


def test_the_sampled_softmax_gets_its_settings() -> None:
    changes = {"loss": "sampled", "adversarial_temperature": 0.5, "label_smoothing": 0.1}
    for score in ("transe", "complex"):
        objective = loss_with(**changes, score=score)
        assert isinstance(objective, SampledSoftmaxLoss)
        assert (objective.adversarial, objective.smoothing) == (0.5, 0.1)


def test_the_softmax_is_by_products_where_it_can_be() -> None:
    for score, backend, kind in (
        ("complex", "auto", FusedSoftmax), ("complex", "torch", SoftmaxLoss),
        ("transe", "auto", SoftmaxLoss),
    ):  # fmt: skip
        objective = loss_with(loss="softmax", score=score, backend=backend)
        assert type(objective) is kind


@pytest.mark.parametrize(
    ("facts", "times"),
    [(1.0, 2.0), (4.0, 2.0), (10.0, 2**0.68), (20.0, 1.0), (30.0, 1.0), (60.0, 0.5**0.68)],
)
def test_n3_is_the_stronger_the_fewer_facts_entities_have(facts: float, times: float) -> None:
    assert n3_by_degree(TrainingConfig(n3=0.05), facts) == pytest.approx(0.05 * times)


def test_a_model_expects_few_facts_with_more_n3_by_degree() -> None:
    def n3_of(model: Model) -> float:
        assert isinstance(model.loss, SumOfLosses)
        (rows,) = model.loss.terms
        assert isinstance(rows, RowPenalty)
        return rows.n3

    adapted = Model(paper_config(score="complex", loss="softmax", n3=0.1, n3_by_degree=True))
    for facts, n3 in ((1.0, 0.2), (30.0, 0.1)):
        adapted.expect(facts)
        assert n3_of(adapted) == n3
    fixed = Model(paper_config(score="complex", loss="softmax", n3=0.1))
    fixed.expect(1.0)
    assert n3_of(fixed) == 0.1


def test_terms_with_a_weight_are_added() -> None:
    changes = {"n3": 0.1, "l2": 0.2, "relation_prediction_weight": 0.3}
    total = loss_with(loss="softmax", score="complex", **changes)
    assert isinstance(total, SumOfLosses)
    assert isinstance(total.on_facts, FusedSoftmax)
    relations, rows = total.terms
    assert isinstance(relations, FusedRelationPrediction)
    assert isinstance(rows, RowPenalty)
    assert (relations.weight, rows.n3, rows.l2) == (0.3, 0.1, 0.2)

    tables, batch = made_tables(1, 9, 2, 8), made_batch(2, 7, 0, 9, 2)
    loss, gradient = gradient_of(total, tables, batch)
    parts = [gradient_of(part, tables, batch) for part in (total.on_facts, relations, rows)]
    assert loss == pytest.approx(sum(each for each, _ in parts))
    torch.testing.assert_close(
        gradient.entity.values, torch.stack([one.entity.values for _, one in parts]).sum(0)
    )


def test_squares_are_those_of_the_loss_on_facts() -> None:
    tables, batch = made_tables(1, 9, 2, 8), made_batch(2, 7, 2, 9, 2)
    squares = [tables.map(torch.zeros_like) for _ in range(2)]
    for total, changes in zip(squares, ({}, {"n3": 0.1}), strict=True):
        loss_with(**changes).add_squares(tables, batch, total)
    assert torch.equal(squares[0].entity, squares[1].entity)


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"label_smoothing": 0.1}, "label_smoothing.*'margin'.*softmax and sampled"),
        (
            {"adversarial_temperature": 1.0, "loss": "softmax"},
            "adversarial_temperature.*'softmax'.*sampled",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(changes: dict[str, Any], fragment: str) -> None:
    with pytest.raises(SettingsError, match=fragment):
        loss_with(**changes)


@pytest.mark.parametrize(("loss", "negatives"), [("margin", 10), ("sampled", 10), ("softmax", 0)])
def test_how_many_negatives_a_loss_wants(loss: str, negatives: int) -> None:
    assert Model(paper_config(loss=loss)).negatives == negatives


@pytest.mark.parametrize("score", sorted(SCORES))
@pytest.mark.parametrize("loss", ["margin", "softmax", "sampled"])
def test_a_step_lowers_every_loss_on_every_score(loss: str, score: str) -> None:
    """A step against the gradient, with all further terms."""
    changes = {"n3": 0.01, "l2": 0.01, "relation_prediction_weight": 0.1}
    own = {"margin": 2.0} if loss == "margin" else {}
    loss_on_facts = loss_with(loss=loss, score=score, **changes, **own)
    tables = made_tables(1, 9, 2, 8, scale=1.0)
    batch = made_batch(2, 7, 0 if loss == "softmax" else 3, 9, 2)
    before, gradient = gradient_of(loss_on_facts, tables, batch)
    for table, part in zip(tables, gradient, strict=True):
        table -= 1e-3 * part.values
    after, _ = gradient_of(loss_on_facts, tables, batch)
    assert after < before
