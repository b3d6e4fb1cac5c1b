"""What attention and its gradient share: what they work on, and how they see an item.

An item is a neighbour of one entity: a pair (r, o), which other entities may have too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge.kernels.jit import inlined, serial

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

FARTHEST = np.float32(43)
"""Queries and keys beyond are cut, so that exp of twice them is a finite number. The tangent of
their sum does not see it unless both lie beyond, on opposite sides."""


class Sources(NamedTuple):
    """x (n, d), w (2m, d), X (n, a), W (2m, a), Q (2m, a) and v (a,)."""

    entity: Floats
    direction: Floats
    entity_keys: Floats
    direction_keys: Floats
    queries: Floats
    vector: Floats


class Pairs(NamedTuple):
    """The r and o of distinct pairs, (p,) both."""

    relations: Places
    others: Places


class Items(NamedTuple):
    """Neighbours of k entities: those of entity e are `starts[e]` to `starts[e + 1]`. Of each its
    r, its place among the pairs, and its discount, (items,)."""

    starts: Places
    relations: Places
    places: Places
    discount: Floats


class Keys(NamedTuple):
    """c (p,) and exp(2K) (p, a)."""

    along: Floats
    exponentials: Floats


class Asks(NamedTuple):
    """Entities (u,), each asked about one of `queries` (u,). Those of entity e are `order` from
    `starts[e]` to `starts[e + 1]`; the items of ask u have their weights from `offsets[u]` on."""

    starts: Places
    order: Places
    queries: Places
    offsets: Places


class Weights(NamedTuple):
    """s and α of each item that an ask looks at, and Σ (s + l) of each ask."""

    learned: Floats
    blended: Floats
    totals: Floats


def exponentials(rows: Floats) -> Floats:
    """exp(2x), all finite and none zero."""
    cut = np.clip(rows, -FARTHEST, FARTHEST)
    cut += cut
    return np.exp(cut, out=cut)


@serial
def grouped(groups: Places, count: int) -> tuple[Any, Any]:
    """Where each of `count` groups starts, (count + 1,), and its members in ascending order."""
    starts = np.zeros(count + 1, dtype=np.int64)
    for group in groups:
        starts[group + 1] += 1
    for group in range(count):
        starts[group + 1] += starts[group]
    fill, members = starts[:count].copy(), np.empty(len(groups), dtype=np.int64)
    for member in range(len(groups)):
        members[fill[groups[member]]] = member
        fill[groups[member]] += 1
    return starts, members


@inlined
def add_row(scale: np.float32, x: Floats, a: int, out: Floats, b: int) -> None:
    """out[b] += scale · x[a]."""
    for i in range(x.shape[1]):
        out[b, i] += scale * x[a, i]


@inlined
def moved_items(
    entity: Floats,
    direction: Floats,
    relations: Places,
    others: Places,
    along: Floats,
    places: Places,
) -> Floats:
    """T of the pairs at some places (n,), shape (n, d)."""
    moved = np.empty((len(places), entity.shape[1]), dtype=np.float32)
    for j in range(len(places)):
        r, o, c = relations[places[j]], others[places[j]], along[places[j]]
        for i in range(entity.shape[1]):
            moved[j, i] = entity[o, i] - c * direction[r, i]
    return moved


@inlined
def find_rho(query: Floats, q: int, key: Floats, k: int, rho: Floats) -> None:
    """rho[0] = 1 / (1 + query[q] key[k])."""
    for i in range(rho.shape[1]):
        rho[0, i] = np.float32(1) / (np.float32(1) + query[q, i] * key[k, i])
