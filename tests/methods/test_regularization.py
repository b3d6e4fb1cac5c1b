"""The pull of rows to where they were; its gradient is tested with the kernel."""

from __future__ import annotations

import torch
from tests.backends.made import BACKENDS

from lkge.backends import Backend
from lkge.methods.regularization import QuadraticPenalty
from lkge.models.parameters import Gradient, Parameters, no_parameters

TABLES = Parameters(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.zeros(2, 2))


def touched(rows: list[int]) -> Gradient:
    gradient = Gradient.like(TABLES)
    gradient.entity.touched[rows] = 1
    return gradient


@BACKENDS
def test_by_hand(backend: Backend) -> None:
    centre = Parameters(torch.tensor([[0.0, 0.0], [3.0, 2.0]]), torch.zeros(0, 2))
    anchor = QuadraticPenalty(centre, Parameters(torch.tensor([[10.0], [0.5]]), torch.zeros(0, 1)))
    gradient = touched([1, 2])
    assert anchor.add_gradient(TABLES, gradient, backend) == 0.5 * 4.0
    assert gradient.entity.values.tolist() == [[0, 0], [0, 2], [0, 0]]
    assert gradient.entity.rows().tolist() == [1, 2]


@BACKENDS
def test_without_old_rows_nothing_is_pulled(backend: Backend) -> None:
    gradient = touched([0, 1, 2])
    anchor = QuadraticPenalty(no_parameters(2), no_parameters(1))
    assert anchor.add_gradient(TABLES, gradient, backend) == 0
    assert not gradient.entity.values.any()
