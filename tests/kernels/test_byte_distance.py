"""Sums of absolute byte differences: the vector instruction, the loop and numpy agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lkge.kernels.byte_distance import (
    HAS_VECTOR_SUM,
    LANES,
    byte_distance,
    loop_distance,
    vector_distance,
)

WAYS = [loop_distance, byte_distance] + ([vector_distance] if HAS_VECTOR_SUM else [])


def by_numpy(x: NDArray[np.uint8], b: int, y: NDArray[np.uint8], c: int) -> int:
    return int(np.abs(x[b].astype(int) - y[c].astype(int)).sum())


@settings(max_examples=20, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**20), vectors=st.integers(1, 9))
def test_all_ways_agree(seed: int, vectors: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 256, (5, vectors * LANES), dtype=np.uint8)
    y = generator.integers(0, 256, (4, vectors * LANES), dtype=np.uint8)
    for b in range(5):
        for c in range(4):
            assert {way(x, b, y, c) for way in WAYS} == {by_numpy(x, b, y, c)}


def test_extremes_do_not_overflow() -> None:
    width = 4096 * LANES
    low, high = np.zeros((1, width), np.uint8), np.full((1, width), 255, np.uint8)
    for way in WAYS:
        assert way(low, 0, high, 0) == way(high, 0, low, 0) == 255 * width
        assert way(high, 0, high, 0) == 0


@pytest.mark.parametrize("offset", [1, 7, 31])
def test_rows_need_no_alignment(offset: int) -> None:
    generator = np.random.default_rng(offset)
    memory = generator.integers(0, 256, 6 * LANES + offset, dtype=np.uint8)
    x = memory[offset:].reshape(3, 2 * LANES)
    for way in WAYS:
        assert way(x, 0, x, 2) == by_numpy(x, 0, x, 2)
