"""The gradient of `kernels.attention`.

With G the gradient on a row and g = T·G, that on the logit is s (g - Σ s g) / Σ (s + l). What asks
hold for the items of their entity is summed entity by entity, what items hold for their pair is
gathered pair by pair, and what pairs hold for rows row by row, so no two threads write to one row
and a sum has one order whatever the number of threads.
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
from lkge.kernels.scratch import Scratch


def attention_gradient(
    sources: Sources,
    pairs: Pairs,
    items: Items,
    keys: Keys,
    asks: Asks,
    weights: Weights,
    scratch: Scratch,
    on_rows: Floats,
) -> Sources:
    """The gradient on the sources, from that on the rows, (u, d)."""
    gradient = Sources(*(np.zeros_like(source) for source in sources))
    dim, width = on_rows.shape[1], len(sources.vector)
    on_items = scratch.take("on_items", len(items.places), dim)
    on_item_keys = scratch.take("on_item_keys", len(items.places), width)
    on_pairs = scratch.take("on_pairs", len(pairs.others), dim)
    on_keys = scratch.take("on_keys", len(pairs.others), width)
    on_along = scratch.take("on_along", len(pairs.others))
    on_asks = scratch.take("on_asks", len(on_rows), width)
    on_vector = scratch.take("on_vector", len(items.starts) - 1, width)
    _flow_to_items(
        sources.entity, sources.direction, exponentials(sources.queries), sources.vector,
        *pairs, items.starts, items.places, *keys, *asks, *weights, on_rows,
        on_items, on_item_keys, on_asks, on_vector,
    )  # fmt: skip
    by_pair = grouped(items.places, len(pairs.others))
    _sum_members(*by_pair, on_items, on_pairs)
    _sum_members(*by_pair, on_item_keys, on_keys)
    _flow_along(
        pairs.relations, sources.direction, sources.direction_keys, on_pairs, on_keys, on_along
    )
    _flow_to_entities(
        *grouped(pairs.others, len(sources.entity)), pairs.relations, sources.direction,
        on_pairs, on_keys, on_along, gradient.entity, gradient.entity_keys,
    )  # fmt: skip
    _flow_to_directions(
        *grouped(pairs.relations, len(sources.direction)), pairs.others, sources.entity,
        keys.along, on_pairs, on_keys, on_along, gradient.direction, gradient.direction_keys,
    )  # fmt: skip
    _sum_members(*grouped(asks.queries, len(sources.queries)), on_asks, gradient.queries)
    on_vector.sum(axis=0, out=gradient.vector)
    return gradient


@parallel
def _flow_to_items(
    entity: Floats,
    direction: Floats,
    queries: Floats,
    vector: Floats,
    pair_relations: Places,
    pair_others: Places,
    item_starts: Places,
    places: Places,
    along: Floats,
    keys: Floats,
    ask_starts: Places,
    order: Places,
    asked: Places,
    offsets: Places,
    learned: Floats,
    blended: Floats,
    totals: Floats,
    on_rows: Floats,
    on_items: Floats,
    on_item_keys: Floats,
    on_asks: Floats,
    on_vector: Floats,
) -> None:
    """Fill what flows to T and K of each item, to Q of each ask, and to v from each entity."""
    for e in prange(len(item_starts) - 1):
        first, stop = item_starts[e], item_starts[e + 1]
        asks = _felt(order[ask_starts[e] : ask_starts[e + 1]], on_rows, on_asks)
        moved = moved_items(
            entity, direction, pair_relations, pair_others, along, places[first:stop]
        )
        rho = np.empty((1, len(vector)), dtype=np.float32)
        on_weights = np.empty(len(moved), dtype=np.float32)
        on_item_keys[first:stop] = 0
        on_vector[e] = 0
        for ask in asks:
            offset, mean = offsets[ask], np.float32(0)
            for j in range(len(moved)):
                on_weights[j] = dot(moved, j, on_rows, ask)
                mean += learned[offset + j] * on_weights[j]
            for j in range(len(moved)):
                flow = learned[offset + j] * (on_weights[j] - mean) / totals[ask]
                find_rho(queries, asked[ask], keys, places[first + j], rho)
                for i in range(len(vector)):
                    on_vector[e, i] += flow * (np.float32(1) - np.float32(2) * rho[0, i])
                    rho[0, i] *= np.float32(4) * flow * vector[i] * (np.float32(1) - rho[0, i])
                add_row(np.float32(1), rho, 0, on_item_keys, first + j)
                add_row(np.float32(1), rho, 0, on_asks, ask)
        for j in range(len(moved)):
            _sum_asked(on_rows, asks, offsets, j, blended, on_items, first + j)


@inlined
def _felt(asks: Places, on_rows: Floats, on_asks: Floats) -> Places:
    """The asks whose row has a gradient; facts that are learned well enough have none. What flows
    to Q of each begins at zero."""
    felt, count = np.empty_like(asks), 0
    for ask in asks:
        on_asks[ask] = 0
        if dot(on_rows, ask, on_rows, ask) > 0:
            felt[count] = ask
            count += 1
    return felt[:count]


@inlined
def _sum_asked(
    on_rows: Floats,
    asks: Places,
    offsets: Places,
    j: int,
    blended: Floats,
    out: Floats,
    item: int,
) -> None:
    """out[item] = Σ α G over the asks, of which it is the j-th item. Four terms a pass spare
    traffic."""
    out[item] = 0
    k = 0
    while k + 4 <= len(asks):
        a, b, c, d = asks[k], asks[k + 1], asks[k + 2], asks[k + 3]
        one, two = blended[offsets[a] + j], blended[offsets[b] + j]
        three, four = blended[offsets[c] + j], blended[offsets[d] + j]
        for i in range(on_rows.shape[1]):
            out[item, i] += (one * on_rows[a, i] + two * on_rows[b, i]) + (
                three * on_rows[c, i] + four * on_rows[d, i]
            )
        k += 4
    while k < len(asks):
        add_row(blended[offsets[asks[k]] + j], on_rows, asks[k], out, item)
        k += 1


@parallel
def _sum_members(starts: Places, members: Places, rows: Floats, sums: Floats) -> None:
    """Fill for each group the sum of the rows of its members."""
    for group in prange(len(starts) - 1):
        sums[group] = 0
        for place in range(starts[group], starts[group + 1]):
            add_row(np.float32(1), rows, members[place], sums, group)


@parallel
def _flow_along(
    relations: Places,
    direction: Floats,
    direction_keys: Floats,
    on_pairs: Floats,
    on_keys: Floats,
    on_along: Floats,
) -> None:
    """Fill what flows to c of each pair."""
    for pair in prange(len(relations)):
        r = relations[pair]
        on_along[pair] = -dot(on_pairs, pair, direction, r) - dot(on_keys, pair, direction_keys, r)


@parallel
def _flow_to_entities(
    starts: Places,
    members: Places,
    relations: Places,
    direction: Floats,
    on_pairs: Floats,
    on_keys: Floats,
    on_along: Floats,
    on_entity: Floats,
    on_entity_keys: Floats,
) -> None:
    """Each entity sums what the pairs with it hold for it."""
    for o in prange(len(starts) - 1):
        for place in range(starts[o], starts[o + 1]):
            pair = members[place]
            r, flow = relations[pair], on_along[pair]
            for i in range(direction.shape[1]):
                on_entity[o, i] += on_pairs[pair, i] + flow * direction[r, i]
            add_row(np.float32(1), on_keys, pair, on_entity_keys, o)


@parallel
def _flow_to_directions(
    starts: Places,
    members: Places,
    others: Places,
    entity: Floats,
    along: Floats,
    on_pairs: Floats,
    on_keys: Floats,
    on_along: Floats,
    on_direction: Floats,
    on_direction_keys: Floats,
) -> None:
    """Each relation sums what the pairs with it hold for it."""
    for r in prange(len(starts) - 1):
        for place in range(starts[r], starts[r + 1]):
            pair = members[place]
            o, c, flow = others[pair], along[pair], on_along[pair]
            for i in range(entity.shape[1]):
                on_direction[r, i] += flow * entity[o, i] - c * on_pairs[pair, i]
            add_row(-c, on_keys, pair, on_direction_keys, r)
