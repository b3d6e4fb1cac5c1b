"""Squared gradients, fact by fact: the kernel, its twin and single batches agree."""

from __future__ import annotations

import pytest
import torch
from tests.kernels.made import batch_of, gradient_of, made_batch, made_tables

from lkge.data.batches import Batch
from lkge.models.objectives import FusedMargin, PlainMargin
from lkge.models.scores import TransE
from lkge.models.tables import Tables


def squares(objective: FusedMargin | PlainMargin, tables: Tables, batch: Batch) -> Tables:
    total = tables.map(torch.zeros_like)
    objective.add_squares(tables, batch, total)
    return total


@pytest.mark.parametrize("margin", [0.5, 8.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_equals_its_twin(seed: int, margin: float) -> None:
    tables, batch = made_tables(seed, 12, 3, 20), made_batch(seed, 40, 6, 12, 3)
    fused = squares(FusedMargin(margin), tables, batch)
    plain = squares(PlainMargin(TransE(), margin), tables, batch)
    for mine, twin in zip(fused, plain, strict=True):
        torch.testing.assert_close(mine, twin, rtol=1e-4, atol=1e-6)
        assert mine.any()


def test_a_single_fact_gives_the_square_of_its_gradient() -> None:
    """Also where an entity occurs in it several times."""
    tables = made_tables(3, 6, 2, 7)
    batch = batch_of(((0, 0, 1), [(0, True), (1, False), (2, True), (2, False)]))
    _, gradient = gradient_of(FusedMargin(8.0), tables, batch)
    for part, found in zip(gradient, squares(FusedMargin(8.0), tables, batch), strict=True):
        torch.testing.assert_close(found, part.values.square(), rtol=1e-5, atol=1e-8)


def test_squares_add_up_and_facts_without_loss_add_nothing() -> None:
    tables, batch = made_tables(5, 10, 2, 9), made_batch(5, 8, 3, 10, 2)
    objective = FusedMargin(8.0)
    total = squares(objective, tables, batch)
    objective.add_squares(tables, batch, total)
    for twice, once in zip(total, squares(objective, tables, batch), strict=True):
        torch.testing.assert_close(twice, 2 * once)
    satisfied = FusedMargin(0.0)
    far = Tables(torch.eye(4), torch.zeros(2, 4) + 1e-3)
    true = batch_of(((0, 0, 0), [(1, True), (2, True)]))
    assert not any(table.any() for table in squares(satisfied, far, true))
