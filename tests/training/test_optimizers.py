from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.backends.made import BACKENDS, NUMBA, TORCH

from lkge.backends import Backend
from lkge.models.parameters import Gradient, Parameters
from lkge.testing import paper_config
from lkge.training.optimizers import RowAdagrad, RowAdam, grown, optimizer_of

pytestmark = pytest.mark.usefixtures("one_thread")


def drawn(seed: int, rows: int = 7, dim: int = 5) -> Parameters:
    generator = torch.Generator().manual_seed(seed)
    return Parameters(
        torch.randn(rows, dim, generator=generator), torch.randn(4, dim, generator=generator)
    )


def gradient_on(rows: list[int], values: Parameters) -> Gradient:
    """A gradient that touches the same rows of both tables."""
    gradient = Gradient.like(values)
    for part, value in zip(gradient, values, strict=True):
        chosen = torch.tensor([row for row in rows if row < len(value)])
        part.add(chosen, value[chosen])
    return gradient


@BACKENDS
@pytest.mark.parametrize(
    ("row_wise", "dense"), [(RowAdam, torch.optim.Adam), (RowAdagrad, torch.optim.Adagrad)]
)
def test_rows_touched_at_every_step_follow_the_dense_optimizer(
    row_wise: Any, dense: Any, backend: Backend
) -> None:
    tables = drawn(0)
    twins = [table.clone().requires_grad_() for table in tables]
    ours = row_wise(tables, learning_rate=0.05, backend=backend)
    theirs = dense(twins, lr=0.05)
    for step in range(1, 30):
        values = drawn(step)
        ours.apply(tables, gradient_on(list(range(7)), values))
        for twin, value in zip(twins, values, strict=True):
            twin.grad = value
        theirs.step()
    for table, twin in zip(tables, twins, strict=True):
        torch.testing.assert_close(table, twin.detach(), rtol=1e-5, atol=1e-6)


@BACKENDS
def test_rows_without_a_gradient_stay_as_they_are(backend: Backend) -> None:
    tables = drawn(0)
    optimizer = RowAdam(tables, learning_rate=0.1, backend=backend)
    optimizer.apply(tables, gradient_on(list(range(7)), drawn(1)))
    before, moments = tables.clone(), optimizer.first.clone()
    optimizer.apply(tables, gradient_on([1, 3], drawn(2)))
    idle = [0, 2, 4, 5, 6]
    assert torch.equal(tables.entity[idle], before.entity[idle])
    assert torch.equal(optimizer.first.entity[idle], moments.entity[idle])
    assert not torch.isclose(tables.entity[[1, 3]], before.entity[[1, 3]]).any()
    assert optimizer.steps.entity.tolist() == [1, 2, 1, 2, 1, 1, 1]


@BACKENDS
def test_the_first_update_of_a_row_is_the_learning_rate_whenever_it_comes(backend: Backend) -> None:
    tables = drawn(0)
    optimizer = RowAdam(tables, learning_rate=0.1, backend=backend)
    for step in range(1, 50):
        optimizer.apply(tables, gradient_on([0], drawn(step)))
    before, values = tables.clone(), drawn(99)
    optimizer.apply(tables, gradient_on([2], values))
    moved = before.entity[2] - tables.entity[2]
    torch.testing.assert_close(moved, 0.1 * values.entity[2].sign(), rtol=1e-4, atol=1e-5)


def test_kernel_and_plain_twin_agree() -> None:
    both = []
    for backend in (NUMBA, TORCH):
        tables = drawn(0)
        optimizer = RowAdam(tables, learning_rate=0.05, backend=backend)
        for step in range(1, 20):
            rows = [row for row in range(7) if (row + step) % 3]
            optimizer.apply(tables, gradient_on(rows, drawn(step)))
        both.append([*tables, *optimizer.first, *optimizer.second, *optimizer.steps])
    for fused_tensor, plain_tensor in zip(*both, strict=True):
        torch.testing.assert_close(fused_tensor, plain_tensor, rtol=1e-5, atol=1e-6)


@BACKENDS
def test_it_goes_on_from_its_state_to_the_bit(backend: Backend) -> None:
    tables = drawn(0)
    optimizer = RowAdam(tables, learning_rate=0.05, backend=backend)
    optimizer.apply(tables, gradient_on([0, 1, 2], drawn(1)))
    other_tables = tables.clone()
    other = RowAdam(other_tables, learning_rate=0.05, backend=backend)
    other.load_state({name: tensor.clone() for name, tensor in optimizer.state().items()})
    for each, its in ((optimizer, tables), (other, other_tables)):
        each.apply(its, gradient_on([1, 2, 3], drawn(2)))
    assert torch.equal(tables.entity, other_tables.entity)
    assert torch.equal(tables.relation, other_tables.relation)


@BACKENDS
def test_adagrad_leaves_rows_without_a_gradient_as_they_are(backend: Backend) -> None:
    tables = drawn(0)
    optimizer = RowAdagrad(tables, learning_rate=0.1, backend=backend)
    optimizer.apply(tables, gradient_on(list(range(7)), drawn(1)))
    before, sums, values = tables.clone(), optimizer.sums.clone(), drawn(2)
    optimizer.apply(tables, gradient_on([1, 3], values))
    idle, moved = [0, 2, 4, 5, 6], [1, 3]
    assert torch.equal(tables.entity[idle], before.entity[idle])
    assert torch.equal(optimizer.sums.entity[idle], sums.entity[idle])
    expected = sums.entity[moved] + values.entity[moved].square()
    torch.testing.assert_close(optimizer.sums.entity[moved], expected)
    assert not torch.isclose(tables.entity[moved], before.entity[moved]).any()


def test_kernel_and_plain_twin_of_adagrad_agree() -> None:
    both = []
    for backend in (NUMBA, TORCH):
        tables = drawn(0)
        optimizer = RowAdagrad(tables, learning_rate=0.05, backend=backend)
        for step in range(1, 20):
            rows = [row for row in range(7) if (row + step) % 3 or step % 5 == 0]
            optimizer.apply(tables, gradient_on(rows, drawn(step)))
        both.append([*tables, *optimizer.sums])
    for fused_tensor, plain_tensor in zip(*both, strict=True):
        torch.testing.assert_close(fused_tensor, plain_tensor, rtol=1e-5, atol=1e-6)


@BACKENDS
def test_a_gradient_of_zero_moves_nothing(backend: Backend) -> None:
    tables = drawn(0)
    before = tables.clone()
    optimizer = RowAdagrad(tables, learning_rate=0.1, backend=backend)
    optimizer.apply(tables, gradient_on([0, 1], tables.map(torch.zeros_like)))
    assert torch.equal(tables.entity, before.entity)


@BACKENDS
@pytest.mark.parametrize("name", ["adam", "adagrad"])
def test_each_goes_on_from_its_state_to_the_bit(name: str, backend: Backend) -> None:
    config = paper_config(optimizer=name, learning_rate=0.05)
    tables = drawn(0)
    optimizer = optimizer_of(config, tables, backend)
    optimizer.apply(tables, gradient_on([0, 1, 2], drawn(1)))
    other_tables = tables.clone()
    other = optimizer_of(config, other_tables, backend)
    other.load_state({name: tensor.clone() for name, tensor in optimizer.state().items()})
    for each, its in ((optimizer, tables), (other, other_tables)):
        each.apply(its, gradient_on([1, 2, 3], drawn(2)))
    assert torch.equal(tables.entity, other_tables.entity)
    assert torch.equal(tables.relation, other_tables.relation)


@pytest.mark.parametrize(("name", "kind"), [("adam", RowAdam), ("adagrad", RowAdagrad)])
def test_the_settings_choose(name: str, kind: type) -> None:
    optimizer = optimizer_of(
        paper_config(optimizer=name, learning_rate=0.3), drawn(0), backend=NUMBA
    )
    assert isinstance(optimizer, kind)
    assert optimizer.learning_rate == 0.3  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["adam", "adagrad"])
def test_its_state_grows_by_rows_of_a_fresh_one(name: str) -> None:
    config, tables = paper_config(optimizer=name), drawn(0, rows=4)
    optimizer = optimizer_of(config, tables, backend=TORCH)
    optimizer.apply(tables, gradient_on([0, 1, 2, 3], drawn(1, rows=4)))
    kept, fresh = optimizer.state(), optimizer_of(config, drawn(2), backend=TORCH).state()
    larger = grown(kept, fresh)
    assert list(larger) == list(fresh)
    for part, tensor in larger.items():
        assert tensor.shape == fresh[part].shape
        assert tensor.dtype == fresh[part].dtype
        assert torch.equal(tensor[: len(kept[part])], kept[part])
        assert not tensor[len(kept[part]) :].any()
    assert all(not tensor.any() for tensor in grown({}, fresh).values())


@BACKENDS
def test_a_cleared_gradient_is_as_new(backend: Backend) -> None:
    gradient = gradient_on([0, 2, 5], drawn(1))
    backend.clear(gradient)
    for part in gradient:
        assert not part.values.any()
        assert not part.touched.any()
