"""The pull of rows to where they were; its gradient is tested with the kernel."""

from __future__ import annotations

import pytest
import torch

from lkge.methods.parts.anchor import Anchor
from lkge.models.tables import Gradient, Tables, no_tables

BACKENDS = pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
TABLES = Tables(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.zeros(2, 2))


def touched(rows: list[int]) -> Gradient:
    gradient = Gradient.like(TABLES)
    gradient.entity.touched[rows] = 1
    return gradient


@BACKENDS
def test_by_hand(fused: bool) -> None:
    centre = Tables(torch.tensor([[0.0, 0.0], [3.0, 2.0]]), torch.zeros(0, 2))
    anchor = Anchor(centre, Tables(torch.tensor([[10.0], [0.5]]), torch.zeros(0, 1)))
    gradient = touched([1, 2])
    assert anchor.add_gradient(TABLES, gradient, fused) == 0.5 * 4.0
    assert gradient.entity.values.tolist() == [[0, 0], [0, 2], [0, 0]]
    assert gradient.entity.rows().tolist() == [1, 2]


@BACKENDS
def test_without_old_rows_nothing_is_pulled(fused: bool) -> None:
    gradient = touched([0, 1, 2])
    anchor = Anchor(no_tables(2), no_tables(1))
    assert anchor.add_gradient(TABLES, gradient, fused) == 0
    assert not gradient.entity.values.any()
