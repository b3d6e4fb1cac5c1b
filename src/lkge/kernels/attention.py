"""Attention of queries to the neighbours of entities, fused: LAN's encoder.

Item i is a neighbour (r, o) of one entity. From rows x, unit directions w, and what W₂ makes of
them, X = W₂x and W = W₂w,

    c = w_r·x_o,   T = x_o - c w_r,   K = X_o - c W_r = W₂T.

To an entity that is asked about q, item i weighs α = (s + l) / Σ (s + l), where s is the softmax of
v·tanh(Q_q + K) over the entity's items and l the item's share of their logic, and the entity's row
is Σ α T. As tanh(Q + K) = 1 - 2ρ with ρ = 1 / (1 + exp(2Q) exp(2K)), exponentials are taken of
queries and of keys, not of each that meet; and as a softmax does not see a constant, the logits are
-2 v·ρ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.distance import dot
from lkge.kernels.jit import inlined, parallel, serial

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


class Items(NamedTuple):
    """Neighbours of k entities: those of entity e are `starts[e]` to `starts[e + 1]`. Of each its r
    and o and its discount, (items,)."""

    starts: Places
    relations: Places
    others: Places
    discount: Floats


class Keys(NamedTuple):
    """c (items,) and exp(2K) (items, a)."""

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


def keys_of(sources: Sources, items: Items) -> Keys:
    """What items are to every query."""
    along = np.empty(len(items.others), dtype=np.float32)
    keys = np.empty((len(items.others), len(sources.vector)), dtype=np.float32)
    _find_keys(*sources[:4], items.relations, items.others, along, keys)
    return Keys(along, exponentials(keys))


def asks_of(items: Items, entities: Places, queries: Places) -> Asks:
    """Entities and what each is asked, in any order."""
    starts, order = grouped(entities, len(items.starts) - 1)
    counts = np.diff(items.starts)[entities]
    return Asks(starts, order, queries, np.append(0, np.cumsum(counts)))


def attended(
    sources: Sources, items: Items, keys: Keys, implied: Floats, asks: Asks
) -> tuple[Floats, Weights]:
    """The row of each ask, (u, d), and the weights that made it. `implied` (2m, 2m) has P(p ⇒ q) at
    [q, p]."""
    rows = np.zeros((len(asks.queries), sources.entity.shape[1]), dtype=np.float32)
    learned = np.empty(asks.offsets[-1], dtype=np.float32)
    weights = Weights(learned, np.empty_like(learned), np.empty(len(rows), dtype=np.float32))
    _attend(
        sources.entity, sources.direction, exponentials(sources.queries), sources.vector,
        *items, *keys, implied, *asks, *weights, rows,
    )  # fmt: skip
    return rows, weights


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


@parallel
def _find_keys(
    entity: Floats,
    direction: Floats,
    entity_keys: Floats,
    direction_keys: Floats,
    relations: Places,
    others: Places,
    along: Floats,
    keys: Floats,
) -> None:
    """Fill c and K."""
    for item in prange(len(others)):
        r, o = relations[item], others[item]
        along[item] = dot(direction, r, entity, o)
        for i in range(keys.shape[1]):
            keys[item, i] = entity_keys[o, i] - along[item] * direction_keys[r, i]


@inlined
def move(
    entity: Floats,
    direction: Floats,
    relations: Places,
    others: Places,
    along: Floats,
    first: int,
    moved: Floats,
) -> None:
    """Fill T of the items from `first` on, (n, d)."""
    for j in range(len(moved)):
        r, o, c = relations[first + j], others[first + j], along[first + j]
        for i in range(moved.shape[1]):
            moved[j, i] = entity[o, i] - c * direction[r, i]


@inlined
def find_rho(query: Floats, q: int, key: Floats, k: int, rho: Floats) -> None:
    """rho[0] = 1 / (1 + query[q] key[k])."""
    for i in range(rho.shape[1]):
        rho[0, i] = np.float32(1) / (np.float32(1) + query[q, i] * key[k, i])


@parallel
def _attend(
    entity: Floats,
    direction: Floats,
    queries: Floats,
    vector: Floats,
    item_starts: Places,
    relations: Places,
    others: Places,
    discount: Floats,
    along: Floats,
    keys: Floats,
    implied: Floats,
    ask_starts: Places,
    order: Places,
    asked: Places,
    offsets: Places,
    learned: Floats,
    blended: Floats,
    totals: Floats,
    rows: Floats,
) -> None:
    """Fill s, α, their totals, and the rows."""
    slope = (np.float32(-2) * vector).reshape(1, -1)
    for e in prange(len(item_starts) - 1):
        first, count = item_starts[e], item_starts[e + 1] - item_starts[e]
        moved = np.empty((count, entity.shape[1]), dtype=np.float32)
        rho = np.empty_like(slope)
        move(entity, direction, relations, others, along, first, moved)
        for place in range(ask_starts[e], ask_starts[e + 1]):
            ask = order[place]
            own = slice(offsets[ask], offsets[ask] + count)
            for j in range(count):
                find_rho(queries, asked[ask], keys, first + j, rho)
                learned[own.start + j] = dot(slope, 0, rho, 0)
                strength = implied[asked[ask], relations[first + j]]
                blended[own.start + j] = strength / discount[first + j]
            totals[ask] = _blend(learned[own], blended[own])
            _sum_weighted(moved, blended[own], rows, ask)


@inlined
def _blend(logits: Floats, logic: Floats) -> np.float32:
    """Logits become s and logic becomes α, (n,) both; return Σ (s + l)."""
    highest, strength = np.float32(-np.inf), np.float32(0)
    for j in range(len(logits)):
        highest = max(highest, logits[j])
        strength += logic[j]
    weight, total = np.float32(0), np.float32(0)
    for j in range(len(logits)):
        logits[j] = np.exp(logits[j] - highest)
        weight += logits[j]
    share = np.float32(1) / strength if strength > 0 else np.float32(0)
    for j in range(len(logits)):
        logits[j] /= weight
        logic[j] = logits[j] + share * logic[j]
        total += logic[j]
    for j in range(len(logits)):
        logic[j] /= total
    return total


@inlined
def _sum_weighted(x: Floats, weights: Floats, out: Floats, b: int) -> None:
    """out[b] += Σ weight · x. Four terms a pass spare traffic on `out`."""
    j = 0
    while j + 4 <= len(x):
        one, two, three, four = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for i in range(x.shape[1]):
            out[b, i] += (one * x[j, i] + two * x[j + 1, i]) + (
                three * x[j + 2, i] + four * x[j + 3, i]
            )
        j += 4
    while j < len(x):
        add_row(weights[j], x, j, out, b)
        j += 1
