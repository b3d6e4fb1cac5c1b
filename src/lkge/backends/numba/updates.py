"""Kernels on rows: updates of optimizers, and sums of row gradients."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.backends.numba.jit import parallel, serial

Floats = NDArray[np.float32]


@parallel
def adam(
    table: Floats,
    gradient: Floats,
    first: Floats,
    second: Floats,
    steps: NDArray[np.int32],
    rows: NDArray[np.int64],
    learning_rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> None:
    """θ -= η · m̂ / (√v̂ + ε) on the given rows; a row's bias correction counts its own updates.

    Shapes: table, gradient, first and second moments (n, d); steps (n,); rows (u,), distinct.
    """
    keep1, take1 = np.float32(beta1), np.float32(1 - beta1)
    keep2, take2 = np.float32(beta2), np.float32(1 - beta2)
    eps = np.float32(epsilon)
    for u in prange(len(rows)):
        row = rows[u]
        steps[row] += 1
        rate = np.float32(learning_rate / (1 - beta1 ** steps[row]))
        root = np.float32(1 / np.sqrt(1 - beta2 ** steps[row]))
        x, g, m, v = table[row], gradient[row], first[row], second[row]
        for i in range(len(x)):
            m[i] = keep1 * m[i] + take1 * g[i]
            v[i] = keep2 * v[i] + take2 * (g[i] * g[i])
            x[i] -= rate * m[i] / (np.sqrt(v[i]) * root + eps)


@parallel
def adagrad(
    table: Floats,
    gradient: Floats,
    sums: Floats,
    rows: NDArray[np.int64],
    learning_rate: float,
    epsilon: float,
) -> None:
    """θ -= η · g / (√Σg² + ε) on the given rows, their g² added to the sums before.

    Shapes: table, gradient and sums (n, d); rows (u,), distinct.
    """
    rate, eps = np.float32(learning_rate), np.float32(epsilon)
    for u in prange(len(rows)):
        x, g, s = table[rows[u]], gradient[rows[u]], sums[rows[u]]
        for i in range(len(x)):
            s[i] += g[i] * g[i]
            x[i] -= rate * g[i] / (np.sqrt(s[i]) + eps)


@parallel
def adagrad_rows(
    table: Floats,
    gradient: Floats,
    sums: Floats,
    rows: NDArray[np.int64],
    learning_rate: float,
    epsilon: float,
) -> None:
    """θ -= η · g / √(Σg² + ε) on the given rows, their g² added to the sums before.

    Shapes: table and sums (n, d); rows (u,), distinct; gradient (u, d), of these rows alone.
    """
    rate, eps = np.float32(learning_rate), np.float32(epsilon)
    for u in prange(len(rows)):
        x, g, s = table[rows[u]], gradient[u], sums[rows[u]]
        for i in range(len(x)):
            s[i] += g[i] * g[i]
            x[i] -= rate * g[i] / np.sqrt(s[i] + eps)


@serial
def scatter(target: Floats, rows: NDArray[np.int32], values: Floats) -> None:
    """target[rows[b]] += values[b] for each b in turn; rows (B,) may repeat."""
    for b in range(len(rows)):
        x, value = target[rows[b]], values[b]
        for i in range(len(x)):
            x[i] += value[i]


@parallel
def add_rows(
    gradient: Floats,
    touched: NDArray[np.uint8],
    rows: NDArray[np.int64],
    values: Floats,
) -> None:
    """Add `values` (u, d) to the given rows (u,), distinct, of a row gradient: they are touched."""
    for u in prange(len(rows)):
        touched[rows[u]] = 1
        x, value = gradient[rows[u]], values[u]
        for i in range(len(x)):
            x[i] += value[i]


@parallel
def add_and_clear(
    source: Floats,
    source_touched: NDArray[np.uint8],
    gradient: Floats,
    touched: NDArray[np.uint8],
    rows: NDArray[np.int64],
    weight: float,
) -> None:
    """Add `weight` times the given rows (u,), distinct, of one row gradient to those of another,
    and set them to zero, untouched, in the first."""
    times = np.float32(weight)
    for u in prange(len(rows)):
        touched[rows[u]] = 1
        source_touched[rows[u]] = 0
        x, value = gradient[rows[u]], source[rows[u]]
        for i in range(len(x)):
            x[i] += times * value[i]
            value[i] = 0


@parallel
def clear(gradient: Floats, touched: NDArray[np.uint8], rows: NDArray[np.int64]) -> None:
    """Set the given rows of a row gradient to zero, untouched."""
    for u in prange(len(rows)):
        gradient[rows[u]] = 0
        touched[rows[u]] = 0
