"""Complex coordinates in real rows, against Python's own complex numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lkge.models import scores


def made(seed: int) -> Tensor:
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(seed))


def as_complex(rows: Tensor) -> list[list[complex]]:
    return torch.complex(rows[:, :4].contiguous(), rows[:, 4:].contiguous()).tolist()


def test_arithmetic_is_that_of_complex_numbers() -> None:
    x, y = as_complex(made(0)), as_complex(made(1))
    products = as_complex(scores.complex_product(made(0), made(1)))
    turned_back = as_complex(scores.conjugate_product(made(0), made(1)))
    phases = as_complex(scores.phases(made(0)))
    moduli, absolutes = scores.moduli(made(0), 2), scores.complex_abs(made(0))
    for row in range(3):
        for k in range(4):
            a, b = x[row][k], y[row][k]
            assert products[row][k] == pytest.approx(a * b, rel=1e-5)
            assert turned_back[row][k] == pytest.approx(a.conjugate() * b, rel=1e-5)
            assert phases[row][k] == pytest.approx(a / abs(a), rel=1e-5)
            assert moduli[row, k].item() == pytest.approx(abs(a), rel=1e-5)
            assert absolutes[row, k].item() == pytest.approx(abs(a), rel=1e-5)


def test_one_changes_nothing() -> None:
    assert scores.complex_product(scores.ComplEx().identity(8), made(0)).equal(made(0))


def test_the_modulus_of_a_real_coordinate_is_its_absolute_value() -> None:
    assert scores.moduli(made(0), 1).equal(made(0).abs())


def test_a_length_of_zero_has_no_gradient() -> None:
    rows = torch.zeros(2, 4, requires_grad=True)
    for lengths in (scores.moduli(rows, 2), scores.complex_abs(rows)):
        (flow,) = torch.autograd.grad(lengths.sum(), rows)
        assert not flow.any()
        torch.testing.assert_close(lengths.detach(), torch.zeros(2, 2))
