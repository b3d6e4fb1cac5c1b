"""Counting below two limits equals counting one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lkge.backends.numba.byte_distance import STRIP, count_below
from lkge.backends.numba.jit import serial


@serial
def counted(
    values: NDArray[np.int32], row: int, column: int, first: int, second: int
) -> tuple[int, int]:
    return count_below(values, row, column, first, second)


@pytest.mark.parametrize("column", [0, 1, STRIP])
@pytest.mark.parametrize(("first", "second"), [(-5, 5), (0, 1), (3, -3), (-(2**31), 2**31 - 1)])
def test_counts_are_those_of_a_plain_loop(column: int, first: int, second: int) -> None:
    generator = np.random.default_rng(0)
    values = generator.integers(-9, 10, (3, 3 * STRIP), dtype=np.int32)
    values[1, 5], values[1, 7] = 2**31 - 1, -(2**31)
    strip = values[1, column : column + STRIP]
    assert counted(values, 1, column, first, second) == (
        int((strip < first).sum()),
        int((strip < second).sum()),
    )
