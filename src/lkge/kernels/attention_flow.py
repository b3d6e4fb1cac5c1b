"""The gradient of `kernels.attention`.

With G the gradient on a row and g = T·G, that on the logit is s (g - Σ s g) / Σ (s + l). What asks
hold for the items of their entity is summed entity by entity, and what items hold for rows is
gathered row by row, so no two threads write to one row and a sum has one order whatever the number
of threads.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from lkge.kernels.attention import (
    Asks,
    Floats,
    Items,
    Keys,
    Places,
    Sources,
    Weights,
    add_row,
    exponentials,
    find_rho,
    grouped,
    move,
)
from lkge.kernels.distance import dot
from lkge.kernels.jit import inlined, parallel
from lkge.kernels.scratch import Scratch


def attention_gradient(
    sources: Sources,
    items: Items,
    keys: Keys,
    asks: Asks,
    weights: Weights,
    scratch: Scratch,
    on_rows: Floats,
) -> Sources:
    """The gradient on the sources, from that on the rows, (u, d)."""
    gradient = Sources(*(np.zeros_like(source) for source in sources))
    size, width = len(items.others), len(sources.vector)
    on_moved = scratch.take("on_moved", size, on_rows.shape[1])
    on_keys = scratch.take("on_keys", size, width)
    on_along = scratch.take("on_along", size)
    on_asks = scratch.take("on_asks", len(on_rows), width)
    on_vector = scratch.take("on_vector", len(items.starts) - 1, width)
    _flow_to_items(
        sources.entity, sources.direction, sources.direction_keys,
        exponentials(sources.queries), sources.vector,
        items.starts, items.relations, items.others, *keys, *asks, *weights, on_rows,
        on_moved, on_keys, on_along, on_asks, on_vector,
    )  # fmt: skip
    _flow_to_entities(
        *grouped(items.others, len(sources.entity)), items.relations, sources.direction,
        on_moved, on_keys, on_along, gradient.entity, gradient.entity_keys,
    )  # fmt: skip
    _flow_to_directions(
        *grouped(items.relations, len(sources.direction)), items.others, sources.entity,
        keys.along, on_moved, on_keys, on_along, gradient.direction, gradient.direction_keys,
    )  # fmt: skip
    _sum_rows(*grouped(asks.queries, len(sources.queries)), on_asks, gradient.queries)
    on_vector.sum(axis=0, out=gradient.vector)
    return gradient


@parallel
def _flow_to_items(
    entity: Floats,
    direction: Floats,
    direction_keys: Floats,
    queries: Floats,
    vector: Floats,
    item_starts: Places,
    relations: Places,
    others: Places,
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
    on_moved: Floats,
    on_keys: Floats,
    on_along: Floats,
    on_asks: Floats,
    on_vector: Floats,
) -> None:
    """Fill what flows to T, K and c of each item, to Q of each ask, and to v from each entity."""
    for e in prange(len(item_starts) - 1):
        first, count = item_starts[e], item_starts[e + 1] - item_starts[e]
        asks = order[ask_starts[e] : ask_starts[e + 1]]
        moved = np.empty((count, entity.shape[1]), dtype=np.float32)
        rho = np.empty((1, len(vector)), dtype=np.float32)
        on_weights = np.empty(count, dtype=np.float32)
        move(entity, direction, relations, others, along, first, moved)
        on_keys[first : first + count] = 0
        on_vector[e] = 0
        for ask in asks:
            offset, mean = offsets[ask], np.float32(0)
            on_asks[ask] = 0
            for j in range(count):
                on_weights[j] = dot(moved, j, on_rows, ask)
                mean += learned[offset + j] * on_weights[j]
            for j in range(count):
                flow = learned[offset + j] * (on_weights[j] - mean) / totals[ask]
                find_rho(queries, asked[ask], keys, first + j, rho)
                for i in range(len(vector)):
                    on_vector[e, i] += flow * (np.float32(1) - np.float32(2) * rho[0, i])
                    rho[0, i] *= np.float32(4) * flow * vector[i] * (np.float32(1) - rho[0, i])
                add_row(np.float32(1), rho, 0, on_keys, first + j)
                add_row(np.float32(1), rho, 0, on_asks, ask)
        for j in range(count):
            item, r = first + j, relations[first + j]
            _sum_asked(on_rows, asks, offsets, j, blended, on_moved, item)
            on_along[item] = -dot(on_moved, item, direction, r)
            on_along[item] -= dot(on_keys, item, direction_keys, r)


@inlined
def _sum_asked(
    on_rows: Floats,
    asks: Places,
    offsets: Places,
    j: int,
    blended: Floats,
    on_moved: Floats,
    item: int,
) -> None:
    """on_moved[item] = Σ α G over the asks, of which it is the j-th item. Four terms a pass spare
    traffic."""
    on_moved[item] = 0
    k = 0
    while k + 4 <= len(asks):
        a, b, c, d = asks[k], asks[k + 1], asks[k + 2], asks[k + 3]
        one, two = blended[offsets[a] + j], blended[offsets[b] + j]
        three, four = blended[offsets[c] + j], blended[offsets[d] + j]
        for i in range(on_rows.shape[1]):
            on_moved[item, i] += (one * on_rows[a, i] + two * on_rows[b, i]) + (
                three * on_rows[c, i] + four * on_rows[d, i]
            )
        k += 4
    while k < len(asks):
        add_row(blended[offsets[asks[k]] + j], on_rows, asks[k], on_moved, item)
        k += 1


@parallel
def _flow_to_entities(
    starts: Places,
    members: Places,
    relations: Places,
    direction: Floats,
    on_moved: Floats,
    on_keys: Floats,
    on_along: Floats,
    on_entity: Floats,
    on_entity_keys: Floats,
) -> None:
    """Each entity sums what the items that lead to it hold for it."""
    for o in prange(len(starts) - 1):
        for place in range(starts[o], starts[o + 1]):
            item = members[place]
            r, flow = relations[item], on_along[item]
            for i in range(direction.shape[1]):
                on_entity[o, i] += on_moved[item, i] + flow * direction[r, i]
            add_row(np.float32(1), on_keys, item, on_entity_keys, o)


@parallel
def _flow_to_directions(
    starts: Places,
    members: Places,
    others: Places,
    entity: Floats,
    along: Floats,
    on_moved: Floats,
    on_keys: Floats,
    on_along: Floats,
    on_direction: Floats,
    on_direction_keys: Floats,
) -> None:
    """Each relation sums what the items that it leads to hold for it."""
    for r in prange(len(starts) - 1):
        for place in range(starts[r], starts[r + 1]):
            item = members[place]
            o, c, flow = others[item], along[item], on_along[item]
            for i in range(entity.shape[1]):
                on_direction[r, i] += flow * entity[o, i] - c * on_moved[item, i]
            add_row(-c, on_keys, item, on_direction_keys, r)


@parallel
def _sum_rows(starts: Places, members: Places, rows: Floats, sums: Floats) -> None:
    """Each group sums the rows of its members."""
    for group in prange(len(starts) - 1):
        for place in range(starts[group], starts[group + 1]):
            add_row(np.float32(1), rows, members[place], sums, group)
