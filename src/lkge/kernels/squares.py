"""Squared gradients of the margin loss of L1 TransE, one fact at a time, fused.

For each fact of a batch alone, with its K corruptions, the gradient g of its loss on every row that
it touches; the squares g² are summed over facts. The passes are those of `margin`, except that a
row is brought through its norm and squared fact by fact.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.distance import dot
from lkge.kernels.jit import inlined, parallel, serial
from lkge.kernels.margin_facts import Floats, add_held, prepared
from lkge.kernels.scratch import Scratch


def margin_squares(
    entity: Floats,
    relation: Floats,
    facts: NDArray[np.int32],
    corruptions: NDArray[np.int32],
    corrupt_object: NDArray[np.bool_],
    margin: float,
    entity_squares: Floats,
    relation_squares: Floats,
    scratch: Scratch,
) -> None:
    """Add Σ_b (∂loss_b/∂θ)² to the squares. Shapes as in `margin_gradient`."""
    batch = prepared(entity, relation, facts, corruptions, corrupt_object, margin, scratch)
    scale = np.float32(1.0 / corruptions.shape[1])
    _entity_squares(
        batch.entities, batch.unit_entity, batch.entity_norm, batch.starts, batch.items,
        batch.centres, batch.fact_gradients, scale, entity_squares,
    )  # fmt: skip
    _relation_squares(
        batch.relations, batch.unit_relation, batch.relation_norm, batch.used, batch.active,
        batch.fact_gradients, scale, relation_squares,
    )  # fmt: skip


@inlined
def _add_square(
    gradient: Floats,
    g: int,
    unit: Floats,
    u: int,
    norm: np.float32,
    scale: np.float32,
    out: Floats,
    c: int,
) -> None:
    """out[c] += (scale · (g - (g·x̂) x̂) / ‖x‖)²."""
    along = dot(gradient, g, unit, u)
    factor = scale / norm
    for i in range(unit.shape[1]):
        value = factor * (gradient[g, i] - along * unit[u, i])
        out[c, i] += value * value


@parallel
def _entity_squares(
    entities: NDArray[np.int64],
    unit: Floats,
    norm: Floats,
    starts: NDArray[np.int64],
    items: NDArray[np.int64],
    centres: Floats,
    fact_gradients: Floats,
    scale: np.float32,
    squares: Floats,
) -> None:
    """Each entity of the batch squares what each of its facts holds for it; the items of a fact
    stand together."""
    dim = unit.shape[1]
    for u in prange(len(entities)):
        gradient = np.zeros((1, dim), dtype=np.float32)
        for place in range(starts[u], starts[u + 1]):
            add_held(items[place], centres, fact_gradients, unit, u, gradient)
            if place + 1 == starts[u + 1] or items[place + 1] >> 2 != items[place] >> 2:
                _add_square(gradient, 0, unit, u, norm[u], scale, squares, entities[u])
                gradient[0] = 0


@serial
def _relation_squares(
    relations: NDArray[np.int64],
    unit: Floats,
    norm: Floats,
    used: NDArray[np.int64],
    active: NDArray[np.int64],
    fact_gradients: Floats,
    scale: np.float32,
    squares: Floats,
) -> None:
    """Each relation of the batch squares what each of its facts holds for it."""
    for b in active:
        u = used[b]
        _add_square(fact_gradients, 3 * b + 2, unit, u, norm[u], scale, squares, relations[u])
