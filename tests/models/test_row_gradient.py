"""A gradient as rows and values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS

from lkge.backends import Backend
from lkge.backends.numba.updates import add_rows
from lkge.models.parameters import RowGradient


def test_a_fresh_gradient_has_no_row() -> None:
    gradient = RowGradient.like(torch.ones(4, 3))
    assert gradient.values.shape == (4, 3)
    assert not gradient.values.any()
    assert gradient.rows().tolist() == []


def test_adding_sums_values_and_marks_rows() -> None:
    gradient = RowGradient.like(torch.ones(4, 2))
    gradient.add(torch.tensor([3, 1]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    gradient.add(torch.tensor([1]), torch.tensor([[5.0, 5.0]]), weight=2.0)
    assert gradient.rows().tolist() == [1, 3]
    assert gradient.values.tolist() == [[0, 0], [13, 14], [0, 0], [1, 2]]


def test_adding_by_all_threads_is_adding() -> None:
    plain, fused = (RowGradient.like(torch.ones(4, 2)) for _ in range(2))
    for rows, values in (([3, 1], [[1.0, 2.0], [3.0, 4.0]]), ([1], [[5.0, 5.0]])):
        plain.add(torch.tensor(rows), torch.tensor(values))
        rows_and_values = np.array(rows), np.array(values, dtype=np.float32)
        add_rows(fused.values.numpy(), fused.touched.numpy(), *rows_and_values)
    assert torch.equal(fused.values, plain.values)
    assert torch.equal(fused.touched, plain.touched)


def test_clearing_some_rows_keeps_the_others() -> None:
    gradient = RowGradient.like(torch.ones(3, 2))
    gradient.add(torch.tensor([0, 2]), torch.ones(2, 2))
    gradient.clear(torch.tensor([0]))
    assert gradient.rows().tolist() == [2]
    assert gradient.values.tolist() == [[0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize("rows", [[0, 2], [0, 1, 2]], ids=["some rows", "all rows"])
def test_scaling_multiplies_what_is_touched(rows: list[int]) -> None:
    gradient = RowGradient.like(torch.ones(3, 2))
    gradient.add(torch.tensor(rows), torch.ones(len(rows), 2))
    gradient.scale(0.25)
    assert gradient.rows().tolist() == rows
    assert gradient.values[:, 0].tolist() == [0.25 if row in rows else 0 for row in range(3)]


@BACKENDS
def test_pouring_adds_to_the_other_and_leaves_nothing(backend: Backend) -> None:
    source, other = (RowGradient.like(torch.ones(4, 2)) for _ in range(2))
    source.add(torch.tensor([0, 2]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    other.add(torch.tensor([2, 3]), torch.ones(2, 2))
    backend.add_and_clear(source, other, 0.5)
    assert other.rows().tolist() == [0, 2, 3]
    assert other.values.tolist() == [[0.5, 1], [0, 0], [2.5, 3], [1, 1]]
    assert source.rows().tolist() == []
    assert not source.values.any()
