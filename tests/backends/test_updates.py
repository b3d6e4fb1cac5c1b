"""Row updates against torch: Adam, the pull to a centre, and clearing."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS, NUMBA, TORCH, made_tables

from lkge.backends import Backend
from lkge.methods.regularization import QuadraticPenalty
from lkge.models.parameters import Gradient, Parameters
from lkge.training.optimizers import RowAdam

RATE = 0.01


def made_gradient(seed: int, like: Parameters, rows: list[int] | None = None) -> Gradient:
    """Normal values on the given rows of both tables, or on all."""
    values, gradient = (
        made_tables(seed, len(like.entity), len(like.relation) // 2, 5),
        Gradient.like(like),
    )
    for part, table in zip(gradient, values, strict=True):
        chosen = torch.arange(len(table)) if rows is None else torch.tensor(rows)
        part.add(chosen, table[chosen])
    return gradient


def after_torch_adam(table: torch.Tensor, gradients: list[torch.Tensor]) -> torch.Tensor:
    parameter = torch.nn.Parameter(table.clone())
    optimizer = torch.optim.Adam([parameter], lr=RATE)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


@BACKENDS
def test_adam_on_all_rows_is_torch_adam(backend: Backend) -> None:
    tables = made_tables(0, 6, 2, 5)
    gradients = [made_gradient(seed, tables) for seed in range(1, 30)]
    expected = [
        after_torch_adam(table, [list(gradient)[place].values for gradient in gradients])
        for place, table in enumerate(tables)
    ]
    optimizer = RowAdam(tables, RATE, backend)
    for gradient in gradients:
        optimizer.apply(tables, gradient)
    for table, twin in zip(tables, expected, strict=True):
        torch.testing.assert_close(table, twin, rtol=1e-5, atol=1e-6)


def test_fused_adam_equals_plain_adam_on_changing_rows() -> None:
    outcomes = []
    for backend in (NUMBA, TORCH):
        tables = made_tables(0, 6, 3, 5)
        optimizer = RowAdam(tables, RATE, backend)
        for seed, rows in enumerate([[0, 1], [1, 4], [5], [0, 1, 2, 3, 4, 5], [2]], start=1):
            optimizer.apply(tables, made_gradient(seed, tables, rows))
        outcomes.append([*tables, *optimizer.state().values()])
    for mine, twin in zip(*outcomes, strict=True):
        torch.testing.assert_close(mine, twin, rtol=1e-5, atol=1e-7)


@BACKENDS
def test_a_row_counts_its_own_updates(backend: Backend) -> None:
    """A row touched now and then moves as if it were alone in dense Adam."""
    tables = made_tables(0, 6, 3, 5)
    start, seen = tables.entity[2].clone(), []
    optimizer = RowAdam(tables, RATE, backend)
    for seed in range(1, 9):
        rows = [0, 2] if seed % 3 == 0 else [0, 1]
        gradient = made_gradient(seed, tables, rows)
        optimizer.apply(tables, gradient)
        if 2 in rows:
            seen.append(gradient.entity.values[2])
    torch.testing.assert_close(
        tables.entity[2], after_torch_adam(start, seen), rtol=1e-5, atol=1e-7
    )
    assert optimizer.steps.entity.tolist() == [8, 6, 2, 0, 0, 0]


@BACKENDS
def test_adam_leaves_untouched_rows_bit_identical(backend: Backend) -> None:
    tables = made_tables(0, 6, 3, 5)
    optimizer = RowAdam(tables, RATE, backend)
    optimizer.apply(tables, made_gradient(1, tables))
    before = copy.deepcopy([*tables, *optimizer.state().values()])
    optimizer.apply(tables, made_gradient(2, tables, [1, 4]))
    for old, now in zip(before, [*tables, *optimizer.state().values()], strict=True):
        for row in range(6):
            same = old[row].numpy().tobytes() == now[row].numpy().tobytes()
            assert same == (row not in (1, 4))


@BACKENDS
@pytest.mark.parametrize("width", [1, 5], ids=["a weight a row", "a weight a coordinate"])
def test_pull_is_what_autograd_finds_on_touched_old_rows(backend: Backend, width: int) -> None:
    tables = made_tables(1, 7, 3, 5)
    centre = made_tables(2, 4, 2, 5)
    weight = centre.map(lambda table: made_tables(3, len(table), 1, width).entity.abs())
    gradient = Gradient.like(tables)
    for part in gradient:
        part.touched[torch.tensor([0, 2, 3, 5])] = 1
    loss = QuadraticPenalty(centre, weight).add_gradient(tables, gradient, backend)

    variables = tables.map(lambda table: table.double().requires_grad_())
    rows = torch.tensor([0, 2, 3])
    terms = [
        (w[rows].double() * (x[rows] - c[rows].double()).square()).sum()
        for x, c, w in zip(variables, centre, weight, strict=True)
    ]
    expected = torch.stack(terms).sum()
    flows = torch.autograd.grad(expected, list(variables))
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    for part, flow in zip(gradient, flows, strict=True):
        torch.testing.assert_close(part.values, flow.float(), rtol=1e-5, atol=1e-7)
        assert part.rows().tolist() == [0, 2, 3, 5]


@BACKENDS
def test_pull_adds_to_the_gradient_and_spares_untouched_rows(backend: Backend) -> None:
    tables = made_tables(1, 4, 2, 5)
    gradient = made_gradient(4, tables, [1])
    before = gradient.entity.values[1].clone()
    anchor = QuadraticPenalty(
        tables.map(torch.zeros_like), tables.map(lambda t: torch.full((len(t), 1), 0.5))
    )
    anchor.add_gradient(tables, gradient, backend)
    torch.testing.assert_close(gradient.entity.values[1], before + tables.entity[1])
    assert not gradient.entity.values[[0, 2, 3]].any()


@BACKENDS
def test_clear_makes_the_gradient_zero(backend: Backend) -> None:
    tables = made_tables(0, 6, 3, 5)
    gradient = made_gradient(1, tables, [0, 3])
    backend.clear(gradient)
    for part in gradient:
        assert not part.values.any()
        assert not part.touched.any()
        assert part.rows().numpy().dtype == np.int64
