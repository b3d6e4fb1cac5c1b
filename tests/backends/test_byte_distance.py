"""Sums of absolute byte differences: the vector instruction, the loop and numpy agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lkge.backends.numba.byte_distance import (
    HAS_VECTOR_SUM,
    LANES,
    ROWS,
    byte_distances,
    loop_distances,
    vector_distances,
)
from lkge.backends.numba.jit import serial

Bytes = NDArray[np.uint8]


@serial
def by_loop(x: Bytes, b: int, y: Bytes, c: int, out: NDArray[np.int32]) -> None:
    loop_distances(x, b, y, c, out, 1, 2)


@serial
def by_choice(x: Bytes, b: int, y: Bytes, c: int, out: NDArray[np.int32]) -> None:
    byte_distances(x, b, y, c, out, 1, 2)


@serial
def by_vector(x: Bytes, b: int, y: Bytes, c: int, out: NDArray[np.int32]) -> None:
    vector_distances(x, b, y, c, out, 1, 2)


WAYS = [by_loop, by_choice] + ([by_vector] if HAS_VECTOR_SUM else [])


def by_numpy(x: Bytes, b: int, y: Bytes, c: int) -> list[int]:
    return np.abs(x[b].astype(int) - y[c : c + ROWS].astype(int)).sum(1).tolist()  # type: ignore[no-any-return]


def check(x: Bytes, b: int, y: Bytes, c: int) -> None:
    """Every way writes the four sums where they belong, and nothing else."""
    for way in WAYS:
        out = np.full((3, 8), -1, dtype=np.int32)
        way(x, b, y, c, out)
        assert out[1, 2 : 2 + ROWS].tolist() == by_numpy(x, b, y, c)
        assert np.count_nonzero(out != -1) == ROWS


@settings(max_examples=20, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**20), vectors=st.integers(1, 9))
def test_all_ways_agree(seed: int, vectors: int) -> None:
    generator = np.random.default_rng(seed)
    x = generator.integers(0, 256, (3, vectors * LANES), dtype=np.uint8)
    y = generator.integers(0, 256, (ROWS + 3, vectors * LANES), dtype=np.uint8)
    for b in range(3):
        for c in range(4):
            check(x, b, y, c)


def test_extremes_do_not_overflow() -> None:
    width = 4096 * LANES
    low, high = np.zeros((ROWS, width), np.uint8), np.full((ROWS, width), 255, np.uint8)
    assert by_numpy(low, 0, high, 0) == [255 * width] * ROWS
    for x, y in ((low, high), (high, low), (high, high)):
        check(x, 0, y, 0)


@pytest.mark.parametrize("offset", [1, 7, 31])
def test_rows_need_no_alignment(offset: int) -> None:
    generator = np.random.default_rng(offset)
    memory = generator.integers(0, 256, 2 * (ROWS + 2) * LANES + offset, dtype=np.uint8)
    x = memory[offset:].reshape(ROWS + 2, 2 * LANES)
    check(x, 0, x, 2)
