"""A younger model learns what an older one answers: term by term, by products and by autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS, NUMBA, TORCH, built, made_tables
from tests.methods import plain_python as paper
from tests.models import plain_scores as plain
from torch import Tensor

from lkge.backends import Backend
from lkge.backends import torch_softmax as room
from lkge.backends.numba import softmax as kernel
from lkge.backends.numba.softmax import FusedDistillation
from lkge.backends.torch_softmax import DistillationLoss
from lkge.data.snapshots import Facts
from lkge.models.losses import Distillation
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import SCORES, score_named

ASKED = np.array([(0, 0), (2, 3), (3, 1), (0, 2)], dtype=np.int32)
WEIGHTS = torch.tensor([0.5, 0.25, 0.25, 1.5])
BILINEAR = ("distmult", "complex")

pytestmark = pytest.mark.usefixtures("one_thread")


def gradient_of(
    objective: Distillation, tables: Parameters, asked: Facts = ASKED, weights: Tensor = WEIGHTS
) -> tuple[float, Gradient]:
    gradient = Gradient.like(tables)
    return objective.add_gradient(tables, asked, weights, gradient), gradient


def answers(score: plain.Score, at: paper.Rows, asked: tuple[int, int], known: int) -> list[float]:
    """The softmax of one question over the first entities."""
    head, relation = at.entity[asked[0]], at.relation[asked[1]]
    scores = [score(head, relation, tail) for tail in at.entity[:known]]
    total = sum(map(math.exp, scores))
    return [math.exp(value) / total for value in scores]


@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, NUMBA) for name in BILINEAR), *((name, TORCH) for name in (*BILINEAR, "transe"))],
)
def test_value_and_slope_are_those_of_the_formula(name: str, backend: Backend) -> None:
    teacher, tables = made_tables(1, 5, 2, 4, scale=1.0), made_tables(2, 7, 2, 4, scale=1.0)
    score = plain.SCORES[name]
    old = paper.Rows(teacher.entity.tolist(), teacher.relation.tolist())
    rows = paper.Rows(tables.entity.tolist(), tables.relation.tolist())

    def formula(at: paper.Rows) -> float:
        return sum(
            -weight * wanted * math.log(given)
            for (head, relation), weight in zip(ASKED.tolist(), WEIGHTS.tolist(), strict=True)
            for wanted, given in zip(
                answers(score, old, (head, relation), 5),
                answers(score, at, (head, relation), 7),
                strict=False,
            )
        )

    loss, gradient = gradient_of(built("distillation", backend, score_named(name), teacher), tables)
    assert loss == pytest.approx(formula(rows), rel=1e-5)
    slope = paper.slope(formula, rows)
    for part, expected in zip(gradient, (slope.entity, slope.relation), strict=True):
        torch.testing.assert_close(part.values, torch.tensor(expected), rtol=1e-3, atol=1e-5)
    assert gradient.entity.touched.all()
    assert gradient.relation.rows().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("name", BILINEAR)
@pytest.mark.parametrize("block_bytes", [1, 8 << 20], ids=["many blocks", "one block"])
def test_products_and_autograd_agree(
    name: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(room, "MOST_NUMBERS", block_bytes)
    teacher, tables = made_tables(1, 33, 3, 8, scale=1.0), made_tables(2, 45, 3, 8, scale=1.0)
    generator = np.random.default_rng(4)
    asked = generator.integers(0, (33, 6), (70, 2)).astype(np.int32)
    weights = torch.from_numpy(generator.random(70)).float()
    mine, gradient = gradient_of(
        built("distillation", NUMBA, score_named(name), teacher), tables, asked, weights
    )
    theirs, twin = gradient_of(
        built("distillation", TORCH, score_named(name), teacher), tables, asked, weights
    )
    assert mine == pytest.approx(theirs, rel=1e-5)
    for one, other in zip(gradient, twin, strict=True):
        torch.testing.assert_close(one.values, other.values, rtol=1e-4, atol=1e-5)
        assert torch.equal(one.touched, other.touched)


@pytest.mark.parametrize("name", sorted(SCORES))
@BACKENDS
def test_who_answers_like_the_teacher_has_nothing_to_learn(name: str, backend: Backend) -> None:
    tables = made_tables(1, 9, 2, 8, scale=1.0)
    _, gradient = gradient_of(
        built("distillation", backend, score_named(name), tables.clone()), tables
    )
    for part in gradient:
        torch.testing.assert_close(part.values, torch.zeros_like(part.values), atol=1e-6, rtol=0)


def test_a_newcomer_that_answers_old_questions_is_lowered() -> None:
    teacher = made_tables(1, 5, 2, 4, scale=1.0)
    newcomer = 3 * teacher.entity[:1]
    tables = Parameters(torch.cat([teacher.entity, newcomer]), teacher.relation.clone())
    before = score_named("complex").score(tables.entity[0], tables.relation[0], tables.entity[5])
    _, gradient = gradient_of(
        FusedDistillation(SCORES["complex"](), teacher),  # type: ignore[arg-type]
        tables, ASKED[:1], WEIGHTS[:1],
    )  # fmt: skip
    moved = tables.entity[5] - 0.1 * gradient.entity.values[5]
    assert score_named("complex").score(tables.entity[0], tables.relation[0], moved) < before


def test_kernels_serve_bilinear_scores_on_request() -> None:
    tables = made_tables(1, 5, 2, 4)
    assert type(built("distillation", NUMBA, score_named("complex"), tables)) is FusedDistillation
    assert type(built("distillation", TORCH, score_named("complex"), tables)) is DistillationLoss
    assert type(built("distillation", NUMBA, score_named("rotate"), tables)) is DistillationLoss
