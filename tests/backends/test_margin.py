"""The fused margin loss equals its plain twin, whatever the batch looks like."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends.made import batch_of, bytes_of, gradient_of, made_batch, made_tables

from lkge.backends.numba.margin import FusedMargin
from lkge.backends.torch_losses import MarginLoss
from lkge.data.batches import Batch
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import TransE

SEED = st.integers(0, 2**20)


def assert_twins_agree(tables: Parameters, batch: Batch, margin: float) -> Gradient:
    """Same loss, same rows touched, same values; returns the fused gradient."""
    fused_loss, fused = gradient_of(FusedMargin(TransE(), margin), tables, batch)
    plain_loss, plain = gradient_of(MarginLoss(TransE(), margin), tables, batch)
    assert fused_loss == pytest.approx(plain_loss, rel=1e-5, abs=1e-6)
    for mine, twin in zip(fused, plain, strict=True):
        assert torch.equal(mine.touched, twin.touched)
        torch.testing.assert_close(mine.values, twin.values, rtol=1e-4, atol=2e-6)
    return fused


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    seed=SEED,
    size=st.integers(1, 40),
    negatives=st.integers(1, 12),
    dim=st.integers(2, 70),
    entities=st.integers(2, 30),
    margin=st.sampled_from([0.0, 0.5, 8.0]),
)
def test_twins_agree_on_any_shape(
    seed: int, size: int, negatives: int, dim: int, entities: int, margin: float
) -> None:
    tables = made_tables(seed, entities, 3, dim)
    assert_twins_agree(tables, made_batch(seed, size, negatives, entities, 3), margin)


def test_twins_agree_where_some_facts_are_inactive() -> None:
    tables, batch = made_tables(1, 20, 3, 16), made_batch(1, 50, 3, 20, 3)
    each = [
        gradient_of(FusedMargin(TransE(), 0.5), tables, made)[0]
        for made in (
            Batch(
                batch.facts[b : b + 1],
                batch.corruptions[b : b + 1],
                batch.corrupt_object[b : b + 1],
            )
            for b in range(len(batch))
        )
    ]
    assert 5 < sum(loss == 0 for loss in each) < 45
    assert gradient_of(FusedMargin(TransE(), 0.5), tables, batch)[0] == pytest.approx(
        np.mean(each), rel=1e-5
    )
    assert_twins_agree(tables, batch, 0.5)


def test_an_inactive_fact_has_no_gradient_but_its_rows_are_touched() -> None:
    tables = Parameters(torch.eye(4), torch.zeros(2, 4))
    batch = batch_of(((0, 0, 0), [(1, True), (3, False)]))
    loss, gradient = gradient_of(FusedMargin(TransE(), 1.5), tables, batch)
    assert loss == 0
    assert gradient.entity.touched.tolist() == [1, 1, 0, 1]
    assert gradient.relation.touched.tolist() == [1, 0]
    assert not gradient.entity.values.any()
    assert not gradient.relation.values.any()
    assert gradient_of(FusedMargin(TransE(), 2.5), tables, batch)[0] == pytest.approx(0.5)


def test_an_entity_may_play_every_role_at_once() -> None:
    batch = batch_of(
        ((0, 0, 1), [(2, True), (0, False), (0, True)]),
        ((2, 1, 0), [(0, True), (1, False), (2, True)]),
        ((1, 2, 2), [(0, True), (0, False), (1, False)]),
    )
    gradient = assert_twins_agree(made_tables(2, 3, 2, 12), batch, 8.0)
    assert gradient.entity.values[0].abs().sum() > 0


def test_self_loops() -> None:
    batch = batch_of(
        ((0, 0, 0), [(1, True), (2, False)]),
        ((1, 1, 1), [(1, True), (0, False)]),
        ((0, 0, 2), [(0, True), (2, False)]),
    )
    assert_twins_agree(made_tables(3, 3, 1, 9), batch, 8.0)


def test_a_corruption_equal_to_the_true_entity_cancels_its_fact() -> None:
    tables = made_tables(4, 3, 1, 10)
    batch = batch_of(((0, 0, 1), [(1, True), (1, True)]))
    loss, gradient = gradient_of(FusedMargin(TransE(), 3.0), tables, batch)
    assert loss == pytest.approx(3.0, rel=1e-6)
    assert gradient.entity.values.abs().max() < 1e-6
    assert gradient.relation.values.abs().max() < 1e-6
    mixed = batch_of(((0, 0, 1), [(1, True), (0, False), (2, True)]))
    assert_twins_agree(tables, mixed, 3.0)


def test_batch_of_one_with_one_corruption() -> None:
    for side in (True, False):
        assert_twins_agree(made_tables(5, 4, 1, 33), batch_of(((3, 1, 2), [(0, side)])), 8.0)


@pytest.mark.filterwarnings("error")
def test_rows_of_zeros_are_divided_by_the_smallest_norm() -> None:
    tables = made_tables(6, 5, 2, 8)
    tables.entity[1] = 0
    tables.relation[2] = 0
    batch = batch_of(((0, 2, 1), [(3, True), (1, False)]), ((4, 0, 2), [(1, True), (0, False)]))
    gradient = assert_twins_agree(tables, batch, 8.0)
    assert gradient.entity.values[1].abs().max() > 1e9
    assert gradient.relation.values[2].abs().max() > 1e9
    assert torch.isfinite(gradient.entity.values).all()


@pytest.mark.parametrize("norm", [1e-9, 1e-11, 1e9])
def test_rows_of_extreme_norms(norm: float) -> None:
    tables = made_tables(7, 5, 2, 8)
    tables.entity[1] *= norm / tables.entity[1].norm()
    tables.relation[1] *= norm / tables.relation[1].norm()
    assert_twins_agree(tables, made_batch(7, 12, 3, 5, 2), 8.0)


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_the_number_of_threads_changes_no_byte() -> None:
    tables, batch = made_tables(8, 60, 4, 50), made_batch(8, 300, 10, 60, 4)
    before, outcomes = numba.get_num_threads(), []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            loss, gradient = gradient_of(FusedMargin(TransE(), 8.0), tables, batch)
            outcomes.append((loss, bytes_of(gradient)))
    finally:
        numba.set_num_threads(before)
    assert outcomes[0] == outcomes[1]


def test_the_gradient_is_added_to_what_is_there() -> None:
    tables, batch = made_tables(9, 6, 1, 7), made_batch(9, 4, 2, 4, 1)
    loss, once = gradient_of(FusedMargin(TransE(), 8.0), tables, batch)
    filled = Gradient.like(tables)
    filled.entity.add(torch.arange(6), torch.ones(6, 7))
    filled.relation.add(torch.arange(2), torch.ones(2, 7))
    assert FusedMargin(TransE(), 8.0).add_gradient(tables, batch, filled) == loss
    for part, alone in zip(filled, once, strict=True):
        torch.testing.assert_close(part.values, alone.values + 1)


def test_buffers_of_an_earlier_batch_leave_no_trace() -> None:
    objective = FusedMargin(TransE(), 0.5)
    shapes = [(64, 7, 40, 24), (5, 2, 40, 24), (30, 4, 9, 17), (64, 7, 40, 24)]
    for seed, (size, negatives, entities, dim) in enumerate(shapes):
        tables = made_tables(seed, entities, 2, dim)
        batch = made_batch(seed, size, negatives, entities, 2)
        loss, gradient = gradient_of(objective, tables, batch)
        fresh_loss, fresh = gradient_of(FusedMargin(TransE(), 0.5), tables, batch)
        assert loss == fresh_loss
        assert bytes_of(gradient) == bytes_of(fresh)
