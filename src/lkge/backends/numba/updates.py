"""Kernels on rows: updates of optimizers, sums of row gradients, and N3 and L2."""

import numpy as np
import torch
from numba import prange
from torch import Tensor

from lkge.backends.numba.distance import dot
from lkge.backends.numba.jit import parallel, serial
from lkge.backends.torch_losses import RowPenalty
from lkge.data.array_types import Bytes, Doubles, Floats, Ints, Places
from lkge.models.parameters import RowGradient


@parallel
def adam(
    table: Floats, gradient: Floats, first: Floats, second: Floats, steps: Ints,
    rows: Places, learning_rate: float, beta1: float, beta2: float, epsilon: float,
) -> None:  # fmt: skip
    """See `TorchBackend.adam`; rows (u,) are distinct."""
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
    table: Floats, gradient: Floats, sums: Floats, rows: Places, learning_rate: float,
    epsilon: float,
) -> None:  # fmt: skip
    """See `TorchBackend.adagrad`; rows (u,) are distinct."""
    rate, eps = np.float32(learning_rate), np.float32(epsilon)
    for u in prange(len(rows)):
        x, g, s = table[rows[u]], gradient[rows[u]], sums[rows[u]]
        for i in range(len(x)):
            s[i] += g[i] * g[i]
            x[i] -= rate * g[i] / (np.sqrt(s[i]) + eps)


@parallel
def adagrad_rows(
    table: Floats, gradient: Floats, sums: Floats, rows: Places, learning_rate: float,
    epsilon: float,
) -> None:  # fmt: skip
    """See `TorchBackend.adagrad_rows`."""
    rate, eps = np.float32(learning_rate), np.float32(epsilon)
    for u in prange(len(rows)):
        x, g, s = table[rows[u]], gradient[u], sums[rows[u]]
        for i in range(len(x)):
            s[i] += g[i] * g[i]
            x[i] -= rate * g[i] / np.sqrt(s[i] + eps)


@serial
def scatter(target: Floats, rows: Ints, values: Floats) -> None:
    """target[rows[b]] += values[b] for each b in turn; rows (B,) may repeat."""
    for b in range(len(rows)):
        x, value = target[rows[b]], values[b]
        for i in range(len(x)):
            x[i] += value[i]


@parallel
def add_rows(gradient: Floats, touched: Bytes, rows: Places, values: Floats) -> None:
    """Add `values` (u, d) to the given rows (u,), distinct, of a row gradient: they are touched."""
    for u in prange(len(rows)):
        touched[rows[u]] = 1
        x, value = gradient[rows[u]], values[u]
        for i in range(len(x)):
            x[i] += value[i]


@parallel
def add_and_clear(
    source: Floats, source_touched: Bytes, gradient: Floats, touched: Bytes, rows: Places,
    weight: float,
) -> None:  # fmt: skip
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
def clear(gradient: Floats, touched: Bytes, rows: Places) -> None:
    """Set the given rows of a row gradient to zero, untouched."""
    for u in prange(len(rows)):
        gradient[rows[u]] = 0
        touched[rows[u]] = 0


@parallel
def penalise(
    table: Floats, rows: Places, weights: Floats, reals: int, n3: float, l2: float,
    gradient: Floats,
) -> Doubles:  # fmt: skip
    """Add the gradient of w · Σ_k (n3 |x_k|³ + l2 |x_k|²) on each of the distinct rows (u,); return
    these sums without their weights w (u,). Table and gradient are (n, d); where a coordinate x_k
    is two `reals`, the first half of a row has the real parts."""
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
def count_rows(used: Places, num_rows: int) -> tuple[Places, Places]:
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


@serial
def grouped(rows: Ints, size: int) -> tuple[Ints, Ints]:
    """Places of `rows` in the order of their values, those of value v from `starts[v]` up to
    `starts[v + 1]`; (size + 1,) and (len(rows),)."""
    starts = np.zeros(size + 1, dtype=np.int32)
    for row in rows:
        starts[row + 1] += 1
    for value in range(size):
        starts[value + 1] += starts[value]
    ends, order = starts[:-1].copy(), np.empty(len(rows), dtype=np.int32)
    for place in range(len(rows)):
        order[ends[rows[place]]] = place
        ends[rows[place]] += 1
    return starts, order


def add_distinct(part: RowGradient, rows: Places, values: Floats) -> None:
    """Add values (u, d) to distinct rows (u,) of a gradient."""
    add_rows(part.values.numpy(), part.touched.numpy(), rows, values)


def add_scattered(part: RowGradient, rows: Ints, values: Tensor) -> None:
    """Add values (b, d) to rows (b,) of a gradient that may repeat, one after the other."""
    scatter(part.values.numpy(), rows, values.numpy())
    part.touched[torch.from_numpy(rows).long()] = 1


class FusedRowPenalty(RowPenalty):
    """`RowPenalty` on the CPU, in one pass over the rows."""

    def count_rows(self, used: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
        """See `RowPenalty`; the rows are in the order of their first use."""
        rows, counts = count_rows(used.flatten().numpy(), num_rows)
        return torch.from_numpy(rows), torch.from_numpy(counts)

    def add_to_rows(self, table: Tensor, rows: Tensor, weights: Tensor, gradient: Tensor) -> Tensor:
        losses = penalise(
            table.numpy(), rows.numpy(), weights.numpy(), self.score.reals, self.n3, self.l2,
            gradient.numpy(),
        )  # fmt: skip
        return torch.from_numpy(losses)
