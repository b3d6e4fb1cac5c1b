"""Row-wise updates: Adam, Adagrad, the quadratic pull of rows to a centre, sums by row."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.distance import dot
from lkge.kernels.jit import parallel, serial

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
def adagrad_some(
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


@parallel
def pull(
    table: Floats,
    centre: Floats,
    weight: Floats,
    rows: NDArray[np.int64],
    gradient: Floats,
) -> float:
    """Add the gradient of Σ w (x - c)² on the given rows; return that loss.

    Shapes: table and gradient (n, d); centre (k, d) and weight (k, 1) or (k, d) for the first k
    rows of the table; rows (u,), all below k.
    """
    shared = weight.shape[1] == 1
    dim = table.shape[1]
    losses = np.zeros(len(rows), dtype=np.float64)
    for u in prange(len(rows)):
        x, c, w, g = table[rows[u]], centre[rows[u]], weight[rows[u]], gradient[rows[u]]
        apart = np.empty((2, dim), dtype=np.float32)
        for i in range(dim):
            apart[0, i] = x[i] - c[i]
        if shared:
            for i in range(dim):
                apart[1, i] = w[0] * apart[0, i]
        else:
            for i in range(dim):
                apart[1, i] = w[i] * apart[0, i]
        for i in range(dim):
            g[i] += np.float32(2) * apart[1, i]
        losses[u] = dot(apart, 0, apart, 1)
    return float(losses.sum())


@serial
def scatter(target: Floats, rows: NDArray[np.int32], values: Floats) -> None:
    """target[rows[b]] += values[b] for each b in turn; rows (B,) may repeat."""
    for b in range(len(rows)):
        x, value = target[rows[b]], values[b]
        for i in range(len(x)):
            x[i] += value[i]


@parallel
def add_some(
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
def pour(
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
