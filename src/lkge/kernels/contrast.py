"""Facts and their corruptions under a score that is a distance, and the gradient of it.

What TransE and RotatE do to a row keeps distances, so that with the two centres of a fact,

    (h, r) ↦ where its tail is expected   and   (r, t) ↦ where its head is expected,

every corruption lies as far from its fact as the entity put in lies from one of them. So rows are
compared as they are, and nothing is composed for single corruptions.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.distance import l1, l2, moduli
from lkge.kernels.jit import parallel, serial

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

L1, L2, MODULI = range(3)
"""‖x - y‖₁, ‖x - y‖₂, and Σ |x_k - y_k| over complex coordinates."""
EPSILON = np.float32(1e-12)


@parallel
def contrast_distances(
    kind: int, entity: Floats, centres: Floats, entities: Places, which: Places
) -> Floats:
    """How far each entity put in lies from its centre, (B, K).

    Shapes: entity (n, d), centres (c, d), the places of both in these (B, K).
    """
    distances = np.empty(entities.shape, dtype=np.float32)
    for b in prange(len(entities)):
        for k in range(entities.shape[1]):
            if kind == L1:
                distances[b, k] = l1(entity, entities[b, k], centres, which[b, k])
            elif kind == L2:
                distances[b, k] = l2(entity, entities[b, k], centres, which[b, k])
            else:
                distances[b, k] = moduli(entity, entities[b, k], centres, which[b, k])
    return distances


@serial
def add_contrast_flows(
    kind: int,
    entity: Floats,
    centres: Floats,
    entities: Places,
    which: Places,
    distances: Floats,
    slopes: Floats,
    on_entity: Floats,
    on_centres: Floats,
) -> None:
    """Add the gradient on entities and centres that `slopes` (B, K) on the distances mean. Where a
    difference is zero, so is its gradient."""
    dim = entity.shape[1]
    half = dim // 2
    flow = np.empty(dim, dtype=np.float32)
    for b in range(len(entities)):
        for k in range(entities.shape[1]):
            e, c, slope = entities[b, k], which[b, k], slopes[b, k]
            if slope == 0:
                continue
            for i in range(dim):
                flow[i] = entity[e, i] - centres[c, i]
            if kind == L1:
                for i in range(dim):
                    flow[i] = slope * (np.float32(flow[i] > 0) - np.float32(flow[i] < 0))
            elif kind == L2:
                factor = slope / max(distances[b, k], EPSILON)
                for i in range(dim):
                    flow[i] *= factor
            else:
                for i in range(half):
                    size = np.sqrt(flow[i] * flow[i] + flow[half + i] * flow[half + i])
                    factor = slope / max(size, EPSILON)
                    flow[i] *= factor
                    flow[half + i] *= factor
            for i in range(dim):
                on_entity[e, i] += flow[i]
            for i in range(dim):
                on_centres[c, i] -= flow[i]
