"""Attention of queries to the neighbours of entities, fused: LAN's encoder.

From rows x, unit directions w, and what W₂ makes of them, X = W₂x and W = W₂w, a pair (r, o) has

    c = w_r·x_o,   T = x_o - c w_r,   K = X_o - c W_r = W₂T.

To an entity that is asked about q, an item weighs α = (s + l) / Σ (s + l), where s is the softmax
of v·tanh(Q_q + K) over the entity's items and l the item's share of their logic, and the entity's
row is Σ α T. As tanh(Q + K) = 1 - 2ρ with ρ = 1 / (1 + exp(2Q) exp(2K)), exponentials are taken of
queries and of keys, not of each that meet; and as a softmax does not see a constant, the logits are
-2 v·ρ.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from lkge.kernels.attention_items import (
    Asks,
    Floats,
    Items,
    Keys,
    Pairs,
    Places,
    Sources,
    Weights,
    add_row,
    exponentials,
    find_rho,
    grouped,
    moved_items,
)
from lkge.kernels.distance import dot
from lkge.kernels.jit import inlined, parallel


def keys_of(sources: Sources, pairs: Pairs) -> Keys:
    """What pairs are to every query."""
    along = np.empty(len(pairs.others), dtype=np.float32)
    keys = np.empty((len(along), len(sources.vector)), dtype=np.float32)
    _find_keys(*sources[:4], *pairs, along, keys)
    return Keys(along, exponentials(keys))


def asks_of(items: Items, entities: Places, queries: Places) -> Asks:
    """Entities and what each is asked, in any order."""
    starts, order = grouped(np.ascontiguousarray(entities), len(items.starts) - 1)
    offsets = np.append(0, np.cumsum(np.diff(items.starts)[entities]))
    return Asks(starts, order, np.ascontiguousarray(queries), offsets)


def attended(
    sources: Sources, pairs: Pairs, items: Items, keys: Keys, implied: Floats, asks: Asks
) -> tuple[Floats, Weights]:
    """The row of each ask, (u, d), and the weights that made it. `implied` (2m, 2m) has P(p ⇒ q) at
    [q, p]."""
    rows = np.zeros((len(asks.queries), sources.entity.shape[1]), dtype=np.float32)
    learned = np.empty(asks.offsets[-1], dtype=np.float32)
    weights = Weights(learned, np.empty_like(learned), np.empty(len(rows), dtype=np.float32))
    _attend(
        sources.entity, sources.direction, exponentials(sources.queries), slopes(sources.vector),
        *pairs, items.starts, items.relations, items.places, items.discount, *keys, implied,
        *asks, *weights, rows,
    )  # fmt: skip
    return rows, weights


def attended_by_all(
    sources: Sources, pairs: Pairs, items: Items, keys: Keys, implied: Floats, queries: Places
) -> Floats:
    """`attended` of all k entities, asked about each of some queries (q,); shape (q, k, d)."""
    shape = (len(queries), len(items.starts) - 1, sources.entity.shape[1])
    rows = np.zeros(shape, dtype=np.float32)
    logits = np.empty((len(queries), len(pairs.others)), dtype=np.float32)
    asked = exponentials(sources.queries[queries])
    _find_logits(asked, keys.exponentials, slopes(sources.vector), logits)
    _attend_to_all(
        sources.entity, sources.direction, *pairs, items.starts, items.relations, items.places,
        items.discount, keys.along, implied[queries], logits, rows.reshape(-1, shape[-1]),
    )  # fmt: skip
    return rows


def slopes(vector: Floats) -> Floats:
    """-2v, (1, a)."""
    return (np.float32(-2) * vector)[None]


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


@parallel
def _attend(
    entity: Floats,
    direction: Floats,
    queries: Floats,
    slope: Floats,
    pair_relations: Places,
    pair_others: Places,
    item_starts: Places,
    relations: Places,
    places: Places,
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
    for e in prange(len(item_starts) - 1):
        first, stop = item_starts[e], item_starts[e + 1]
        moved = moved_items(
            entity, direction, pair_relations, pair_others, along, places[first:stop]
        )
        rho = np.empty_like(slope)
        for ask in order[ask_starts[e] : ask_starts[e + 1]]:
            own = slice(offsets[ask], offsets[ask] + stop - first)
            for j in range(stop - first):
                find_rho(queries, asked[ask], keys, places[first + j], rho)
                learned[own.start + j] = dot(slope, 0, rho, 0)
                strength = implied[asked[ask], relations[first + j]]
                blended[own.start + j] = strength / discount[first + j]
            totals[ask] = _blend(learned[own], blended[own])
            _sum_weighted(moved, blended[own], rows, ask)


@parallel
def _find_logits(queries: Floats, keys: Floats, slope: Floats, logits: Floats) -> None:
    """Fill the logit of each pair to each query, (q, p)."""
    for pair in prange(len(keys)):
        rho = np.empty_like(slope)
        for query in range(len(queries)):
            find_rho(queries, query, keys, pair, rho)
            logits[query, pair] = dot(slope, 0, rho, 0)


@parallel
def _attend_to_all(
    entity: Floats,
    direction: Floats,
    pair_relations: Places,
    pair_others: Places,
    starts: Places,
    relations: Places,
    places: Places,
    discount: Floats,
    along: Floats,
    implied: Floats,
    logits: Floats,
    rows: Floats,
) -> None:
    """Fill the rows of all entities for each query, one query after the other."""
    for e in prange(len(starts) - 1):
        first, stop = starts[e], starts[e + 1]
        moved = moved_items(
            entity, direction, pair_relations, pair_others, along, places[first:stop]
        )
        learned, blended = np.empty(len(moved), np.float32), np.empty(len(moved), np.float32)
        for query in range(len(logits)):
            for j in range(len(moved)):
                learned[j] = logits[query, places[first + j]]
                blended[j] = implied[query, relations[first + j]] / discount[first + j]
            _blend(learned, blended)
            _sum_weighted(moved, blended, rows, query * (len(starts) - 1) + e)


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
