"""The fused autoencoder against its plain twin and against differences of its own loss."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.backends.made import BACKENDS, NUMBA, TORCH, built, bytes_of, made_facts, made_tables

from lkge.backends import Backend
from lkge.backends.numba.autoencoder import FusedAutoencoder
from lkge.backends.numba.jit import Scratch
from lkge.data.snapshots import Facts
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import TransE

WEIGHT = Parameters(torch.tensor(0.3), torch.tensor(0.7))


def made_past(seed: int, tables: Parameters, old: Parameters) -> Parameters:
    """Numbers of earlier facts, zero for some old rows and for all new ones."""
    generator = np.random.default_rng(seed)

    def draw(table: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        counts = torch.zeros(len(table))
        counts[: len(before)] = torch.from_numpy(
            generator.integers(0, 5, len(before)).astype(np.float32)
        )
        return counts

    return tables.map(draw, old)


def made_case(
    seed: int, size: int, entities: int, dim: int
) -> tuple[Facts, Parameters, Parameters, Parameters]:
    tables = made_tables(seed, entities, 3, dim)
    old = made_tables(seed + 1, entities // 2, 2, dim)
    return made_facts(seed, size, entities, 3), tables, old, made_past(seed, tables, old)


def outcome(
    facts: Facts, tables: Parameters, old: Parameters, past: Parameters, backend: Backend
) -> tuple[float, Gradient]:
    gradient = Gradient.like(tables)
    autoencoder = built("autoencoder", backend, TransE(), facts, old, past, WEIGHT)
    return autoencoder.add_gradient(tables, gradient), gradient


@settings(max_examples=25, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    size=st.integers(1, 60),
    entities=st.integers(2, 20),
    dim=st.integers(1, 40),
)
def test_twins_agree(seed: int, size: int, entities: int, dim: int) -> None:
    case = made_case(seed, size, entities, dim)
    loss, gradient = outcome(*case, backend=NUMBA)
    twin_loss, twin = outcome(*case, backend=TORCH)
    assert loss == pytest.approx(twin_loss, rel=1e-5, abs=1e-6)
    for mine, other in zip(gradient, twin, strict=True):
        assert torch.equal(mine.touched, other.touched)
        torch.testing.assert_close(mine.values, other.values, rtol=1e-4, atol=1e-5)


@BACKENDS
def test_the_gradient_is_that_of_the_loss(backend: Backend) -> None:
    """The loss is quadratic, so a central difference is exact for any step, even a large one."""
    facts, tables, old, past = made_case(3, 12, 6, 4)
    _, gradient = outcome(facts, tables, old, past, backend)
    for which, part in enumerate(gradient):
        for row in range(len(part.values)):
            for column in range(4):
                ends = []
                for step in (0.5, -0.5):
                    moved = tables.clone()
                    list(moved)[which][row, column] += step
                    ends.append(outcome(facts, moved, old, past, backend)[0])
                assert ends[0] - ends[1] == pytest.approx(float(part.values[row, column]), abs=2e-5)


def test_only_rows_with_facts_are_touched() -> None:
    facts = np.array([[1, 2, 3]], dtype=np.int32)
    tables, old = made_tables(0, 5, 3, 4), made_tables(1, 4, 2, 4)
    for backend in (NUMBA, TORCH):
        _, gradient = outcome(facts, tables, old, made_past(1, tables, old), backend)
        assert gradient.entity.rows().tolist() == [1, 3]
        assert gradient.relation.rows().tolist() == [2, 3]
        assert gradient.entity.values.abs().sum(1).nonzero().flatten().tolist() == [1, 3]
        assert gradient.relation.values.abs().sum(1).nonzero().flatten().tolist() == [2, 3]


def test_without_facts_there_is_no_loss() -> None:
    _, tables, old, past = made_case(0, 1, 4, 3)
    for backend in (NUMBA, TORCH):
        loss, gradient = outcome(np.empty((0, 3), np.int32), tables, old, past, backend)
        assert loss == 0
        assert not gradient.entity.touched.any()


def test_incidences_count_every_fact_from_both_ends() -> None:
    facts = np.array([[4, 0, 7], [4, 0, 7], [7, 4, 4], [9, 0, 9]], dtype=np.int32)
    tables = made_tables(0, 10, 3, 4)
    near = FusedAutoencoder(TransE(), facts, tables, made_past(0, tables, tables), WEIGHT)
    assert near.members.entity.tolist() == [4, 7, 9]
    assert near.members.relation.tolist() == [0, 1, 4, 5]
    assert near._new.entity.tolist() == [3, 3, 2]
    assert near._new.relation.tolist() == [3, 3, 1, 1]
    starts, columns, counts = near.entity_entity
    rows = {
        entity: dict(zip(columns[a:b].tolist(), counts[a:b].tolist(), strict=True))
        for entity, (a, b) in zip([4, 7, 9], pairwise(starts), strict=True)
    }
    assert rows == {4: {1: 3.0}, 7: {0: 3.0}, 9: {2: 2.0}}
    starts, columns, counts = near.relation_entity
    assert [columns[a:b].tolist() for a, b in pairwise(starts)] == [
        [0, 2], [1, 2], [1], [0],
    ]  # fmt: skip


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="one thread only")
def test_the_number_of_threads_changes_no_byte_of_the_gradient() -> None:
    case = made_case(5, 400, 60, 50)
    before, outcomes = numba.get_num_threads(), []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            outcomes.append(outcome(*case, backend=NUMBA))
    finally:
        numba.set_num_threads(before)
    assert bytes_of(outcomes[0][1]) == bytes_of(outcomes[1][1])
    assert outcomes[0][0] == pytest.approx(outcomes[1][0], rel=1e-12)


def test_buffers_of_an_earlier_call_leave_no_trace() -> None:
    shared = Scratch()
    for seed, (size, entities, dim) in enumerate([(60, 20, 16), (3, 6, 9), (25, 12, 30)]):
        facts, tables, old, past = made_case(seed, size, entities, dim)
        outcomes = []
        for scratch in (shared, Scratch()):
            gradient = Gradient.like(tables)
            autoencoder = FusedAutoencoder(TransE(), facts, old, past, WEIGHT)
            autoencoder._scratch = scratch
            loss = autoencoder.add_gradient(tables, gradient)
            outcomes.append((loss, bytes_of(gradient)))
        assert outcomes[0] == outcomes[1]
