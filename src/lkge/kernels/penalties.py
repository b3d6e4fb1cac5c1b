"""N3 and L2 of some rows of a table, and their gradient; how often rows are used."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.distance import dot
from lkge.kernels.jit import parallel, serial

Floats = NDArray[np.float32]


@parallel
def penalise(
    table: Floats,
    rows: NDArray[np.int64],
    weights: Floats,
    reals: int,
    n3: float,
    l2: float,
    gradient: Floats,
) -> NDArray[np.float64]:
    """Add the gradient of w · Σ_k (n3 |x_k|³ + l2 |x_k|²) on each of the rows (u,), which are
    distinct; return these sums without their weights w (u,).

    Table and gradient are (n, d). Where a coordinate x_k is two `reals`, the first half of a row
    has the real parts, the second half the imaginary parts.
    """
    cubic, square = np.float32(3 * n3), np.float32(2 * l2)
    least = np.finfo(np.float32).tiny
    size = table.shape[1] // reals
    losses = np.zeros(len(rows), dtype=np.float64)
    for u in prange(len(rows)):
        x, slopes, weight = table[rows[u]], gradient[rows[u]], weights[u]
        powers = np.empty((2, size), dtype=np.float32)
        moduli = powers[0]
        if reals == 2:
            for k in range(size):
                moduli[k] = np.sqrt(max(x[k] * x[k] + x[size + k] * x[size + k], least))
        else:
            for k in range(size):
                moduli[k] = abs(x[k])
        for first in range(0, size * reals, size):
            for k in range(size):
                slopes[first + k] += (cubic * moduli[k] + square) * weight * x[first + k]
        for k in range(size):
            powers[1, k] = moduli[k] * moduli[k]
        losses[u] = n3 * dot(powers, 0, powers, 1) + l2 * dot(powers, 0, powers, 0)
    return losses


@serial
def tally(used: NDArray[np.int64], num_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct rows among those `used` (b,) of so many, in the order in which they come, and
    how often each does, (u,) both."""
    counts = np.zeros(num_rows, dtype=np.int64)
    rows = np.empty(len(used), dtype=np.int64)
    found = 0
    for row in used:
        if not counts[row]:
            rows[found] = row
            found += 1
        counts[row] += 1
    return rows[:found], counts[rows[:found]]
