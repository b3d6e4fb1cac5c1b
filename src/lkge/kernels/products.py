"""Sums over edges of products of two rows, u = x̄·y, as they are or brought to a length, and their
gradient: the masked autoencoder of scores whose relations multiply.

    TURN     v = u
    STRETCH  v = ℓ · u / ‖u‖,   ℓ = a ‖x‖ + (1 - a) ‖y‖
    PHASE    v_k = u_k / |u_k|,   coordinate by coordinate

A gradient g on v is g_u on u, and that is x·g_u on y and ḡ_u·y on x:

    STRETCH  g_u = ℓ/‖u‖ · (g - ⟨g, û⟩ û),   and ⟨g, û⟩ on ℓ
    PHASE    g_u = (g - ⟨g, v⟩ v) / |u|,   coordinate by coordinate

Where a length is below `EPSILON`, v and its gradient are zero. Rows have real coordinates, or
complex ones: real parts first, then imaginary ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge.kernels.distance import dot
from lkge.kernels.jit import inlined, serial

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

TURN, STRETCH, PHASE = range(3)
EPSILON = np.float32(1e-12)


class Form(NamedTuple):
    """How v is made of x and y: one of the three, the reals of a coordinate, and a."""

    kind: int
    reals: int
    share: float = 0.0


class Edges(NamedTuple):
    """Places of x, of y, and of the row that v is added to, (e,) each."""

    xs: Places
    ys: Places
    targets: Places


def add_sums(form: Form, edges: Edges, x: Floats, y: Floats, sums: Floats) -> None:
    """Add v of each edge to its row of `sums`. Shapes: x (n, d), y (m, d), sums (k, d)."""
    lengths = _lengths(x), _lengths(y)
    _add_sums(*form, *edges, x, y, *lengths, sums)


def add_flows(
    form: Form,
    edges: Edges,
    x: Floats,
    y: Floats,
    on_sums: Floats,
    on_x: Floats,
    on_y: Floats,
) -> None:
    """Add to `on_x` and `on_y`, which may be one array, the gradient that one on the sums means."""
    lengths = _lengths(x), _lengths(y)
    _add_flows(*form, *edges, x, y, *lengths, on_sums, on_x, on_y)


@serial
def _lengths(table: Floats) -> Floats:
    """‖x‖₂ of each row, (n,)."""
    lengths = np.empty(len(table), dtype=np.float32)
    for row in range(len(table)):
        lengths[row] = np.sqrt(dot(table, row, table, row))
    return lengths


@inlined
def _multiply(x: Floats, a: int, y: Floats, b: int, reals: int, u: Floats) -> None:
    """u[0] = the conjugate of x[a], times y[b]."""
    half = x.shape[1] // reals
    if reals == 1:
        for i in range(half):
            u[0, i] = x[a, i] * y[b, i]
    else:
        for i in range(half):
            u[0, i] = x[a, i] * y[b, i] + x[a, half + i] * y[b, half + i]
            u[0, half + i] = x[a, i] * y[b, half + i] - x[a, half + i] * y[b, i]


@inlined
def _add_factors(
    g: Floats, x: Floats, a: int, y: Floats, b: int, reals: int, on_x: Floats, on_y: Floats
) -> None:
    """What a gradient g[0] on the product is on x[a] and on y[b]."""
    half = x.shape[1] // reals
    if reals == 1:
        for i in range(half):
            on_x[a, i] += g[0, i] * y[b, i]
        for i in range(half):
            on_y[b, i] += g[0, i] * x[a, i]
    else:
        for i in range(half):
            on_x[a, i] += g[0, i] * y[b, i] + g[0, half + i] * y[b, half + i]
            on_x[a, half + i] += g[0, i] * y[b, half + i] - g[0, half + i] * y[b, i]
        for i in range(half):
            on_y[b, i] += g[0, i] * x[a, i] - g[0, half + i] * x[a, half + i]
            on_y[b, half + i] += g[0, i] * x[a, half + i] + g[0, half + i] * x[a, i]


@serial
def _add_sums(
    kind: int,
    reals: int,
    share: float,
    xs: Places,
    ys: Places,
    targets: Places,
    x: Floats,
    y: Floats,
    x_lengths: Floats,
    y_lengths: Floats,
    sums: Floats,
) -> None:
    dim = x.shape[1]
    half = dim // 2
    u = np.empty((1, dim), dtype=np.float32)
    mine, yours = np.float32(share), np.float32(1 - share)
    for edge in range(len(xs)):
        a, b, target = xs[edge], ys[edge], targets[edge]
        _multiply(x, a, y, b, reals, u)
        if kind == PHASE:
            for i in range(half):
                size = np.sqrt(u[0, i] * u[0, i] + u[0, half + i] * u[0, half + i])
                factor = np.float32(size > EPSILON) / max(size, EPSILON)
                sums[target, i] += factor * u[0, i]
                sums[target, half + i] += factor * u[0, half + i]
            continue
        factor = np.float32(1)
        if kind == STRETCH:
            length = np.sqrt(dot(u, 0, u, 0))
            wanted = mine * x_lengths[a] + yours * y_lengths[b]
            factor = np.float32(length > EPSILON) * wanted / max(length, EPSILON)
        for i in range(dim):
            sums[target, i] += factor * u[0, i]


@serial
def _add_flows(
    kind: int,
    reals: int,
    share: float,
    xs: Places,
    ys: Places,
    targets: Places,
    x: Floats,
    y: Floats,
    x_lengths: Floats,
    y_lengths: Floats,
    on_sums: Floats,
    on_x: Floats,
    on_y: Floats,
) -> None:
    dim = x.shape[1]
    half = dim // 2
    u = np.empty((1, dim), dtype=np.float32)
    g = np.empty((1, dim), dtype=np.float32)
    mine, yours = np.float32(share), np.float32(1 - share)
    for edge in range(len(xs)):
        a, b, target = xs[edge], ys[edge], targets[edge]
        if kind == TURN:
            for i in range(dim):
                g[0, i] = on_sums[target, i]
            _add_factors(g, x, a, y, b, reals, on_x, on_y)
            continue
        _multiply(x, a, y, b, reals, u)
        if kind == PHASE:
            for i in range(half):
                size = np.sqrt(u[0, i] * u[0, i] + u[0, half + i] * u[0, half + i])
                factor = np.float32(size > EPSILON) / max(size, EPSILON)
                real, imaginary = factor * u[0, i], factor * u[0, half + i]
                along = on_sums[target, i] * real + on_sums[target, half + i] * imaginary
                g[0, i] = factor * (on_sums[target, i] - along * real)
                g[0, half + i] = factor * (on_sums[target, half + i] - along * imaginary)
            _add_factors(g, x, a, y, b, reals, on_x, on_y)
            continue
        length = np.sqrt(dot(u, 0, u, 0))
        if length <= EPSILON:
            continue
        along = dot(on_sums, target, u, 0) / length
        factor = (mine * x_lengths[a] + yours * y_lengths[b]) / length
        inward = along / length
        for i in range(dim):
            g[0, i] = factor * (on_sums[target, i] - inward * u[0, i])
        _add_factors(g, x, a, y, b, reals, on_x, on_y)
        on_my_length = mine * along / max(x_lengths[a], EPSILON)
        on_your_length = yours * along / max(y_lengths[b], EPSILON)
        for i in range(dim):
            on_x[a, i] += on_my_length * x[a, i]
        for i in range(dim):
            on_y[b, i] += on_your_length * y[b, i]
