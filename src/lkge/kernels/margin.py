"""The margin loss of L1 TransE and its gradient, fused.

For a fact (h, r, t) with K corruptions, on L2-normalised rows,

    loss = max(0, γ + ‖h + r - t‖₁ - 1/K Σ_k d_k),
    d_k  = ‖h + r - t'_k‖₁  or  ‖h'_k + r - t‖₁,

averaged over the B facts of the batch. Each gradient on a normalised row is a sum of sign vectors
times 1/(K·B). Facts are worked on in parallel, then rows gather what their facts hold for them, so
no two threads write to one row and the sum has one order whatever the number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.distance import dot
from lkge.kernels.jit import inlined, parallel, serial
from lkge.kernels.margin_facts import Floats, Ints, add_held, prepared
from lkge.kernels.scratch import Scratch

Flags = NDArray[np.uint8]


def margin_gradient(
    entity: Floats,
    relation: Floats,
    facts: Ints,
    corruptions: Ints,
    corrupt_object: NDArray[np.bool_],
    margin: float,
    entity_gradient: Floats,
    entity_touched: Flags,
    relation_gradient: Floats,
    relation_touched: Flags,
    scratch: Scratch,
) -> float:
    """Add the gradient of the mean loss to the row gradients; return the mean loss.

    Shapes: entity (n, d), relation (m, d), facts (B, 3), corruptions and corrupt_object (B, K).
    """
    batch = prepared(entity, relation, facts, corruptions, corrupt_object, margin, scratch)
    scale = np.float32(1.0 / (corruptions.shape[1] * len(facts)))
    _entities_pass(
        batch.entities, batch.unit_entity, batch.entity_norm, batch.starts, batch.items,
        batch.centres, batch.fact_gradients, scale, entity_gradient, entity_touched,
    )  # fmt: skip
    _relations_pass(
        batch.relations, batch.unit_relation, batch.relation_norm, batch.used, batch.active,
        batch.fact_gradients, scale, relation_gradient, relation_touched,
    )  # fmt: skip
    return float(batch.losses.sum(dtype=np.float64) / len(facts))


@inlined
def _add_through_norm(
    gradient: Floats,
    g: int,
    unit: Floats,
    u: int,
    norm: np.float32,
    scale: np.float32,
    out: Floats,
    c: int,
) -> None:
    """out[c] += scale · (g - (g·x̂) x̂) / ‖x‖: what a gradient g on x̂ = x/‖x‖ means for x."""
    along = dot(gradient, g, unit, u)
    factor = scale / norm
    for i in range(unit.shape[1]):
        out[c, i] += factor * (gradient[g, i] - along * unit[u, i])


@parallel
def _entities_pass(
    entities: NDArray[np.int64],
    unit: Floats,
    norm: Floats,
    starts: NDArray[np.int64],
    items: NDArray[np.int64],
    centres: Floats,
    fact_gradients: Floats,
    scale: np.float32,
    target: Floats,
    touched: Flags,
) -> None:
    """Each entity of the batch sums what its facts hold for it."""
    dim = unit.shape[1]
    for u in prange(len(entities)):
        touched[entities[u]] = 1
        if starts[u] == starts[u + 1]:
            continue
        gradient = np.zeros((1, dim), dtype=np.float32)
        for place in range(starts[u], starts[u + 1]):
            add_held(items[place], centres, fact_gradients, unit, u, gradient)
        _add_through_norm(gradient, 0, unit, u, norm[u], scale, target, entities[u])


@serial
def _relations_pass(
    relations: NDArray[np.int64],
    unit: Floats,
    norm: Floats,
    used: NDArray[np.int64],
    active: NDArray[np.int64],
    fact_gradients: Floats,
    scale: np.float32,
    target: Floats,
    touched: Flags,
) -> None:
    """Each relation of the batch sums what its facts hold for it."""
    gradients = np.zeros_like(unit)
    for b in active:
        row = used[b]
        for i in range(unit.shape[1]):
            gradients[row, i] += fact_gradients[3 * b + 2, i]
    for u in range(len(relations)):
        touched[relations[u]] = 1
        _add_through_norm(gradients, u, unit, u, norm[u], scale, target, relations[u])
