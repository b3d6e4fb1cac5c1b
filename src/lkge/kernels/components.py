"""What relations see of entities: the components that they have chosen, each times its weight.

A row (reals · K · size,) becomes (reals · n · size,): of each real part, the n chosen of its K
components. Threads share no entity, so a sum has one order whatever their number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.jit import parallel
from lkge.kernels.updates import scatter

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


class Choice(NamedTuple):
    """The components of each relation and their weights, (2m, n) both; real parts of a row, and
    coordinates of a component in each."""

    chosen: Places
    weights: Floats
    reals: int
    size: int


@parallel
def seen(
    entity: Floats,
    entities: Places,
    queries: Places,
    chosen: Places,
    weights: Floats,
    reals: int,
    size: int,
    out: Floats,
) -> None:
    """Fill what each query (k,) sees of its entity (k,), a row of `entity` (·, d); out (k, ·)."""
    active = chosen.shape[1]
    components = entity.shape[1] // (reals * size)
    for row in prange(len(entities)):
        e, q = entities[row], queries[row]
        for part in range(reals):
            for c in range(active):
                source = (part * components + chosen[q, c]) * size
                target = (part * active + c) * size
                for i in range(size):
                    out[row, target + i] = weights[q, c] * entity[e, source + i]


def seen_gradient(
    entity: Floats,
    entities: Places,
    queries: Places,
    choice: Choice,
    on_seen: Floats,
    on_entity: Floats,
    touched: NDArray[np.uint8],
) -> Floats:
    """Add the gradient on the entities, which come in ascending order, from that on what is seen of
    them, (k, ·); return that on the weights, (2m, n)."""
    first = np.append(True, entities[1:] != entities[:-1])
    starts = np.append(np.flatnonzero(first), len(entities))
    on_weights = np.zeros((len(entities), choice.chosen.shape[1]), dtype=np.float32)
    _flow_back(entity, starts, entities, queries, *choice, on_seen, on_entity, touched, on_weights)
    total = np.zeros_like(choice.weights)
    scatter(total, queries.astype(np.int32), on_weights)
    return total


@parallel
def _flow_back(
    entity: Floats,
    starts: Places,
    entities: Places,
    queries: Places,
    chosen: Places,
    weights: Floats,
    reals: int,
    size: int,
    on_seen: Floats,
    on_entity: Floats,
    touched: NDArray[np.uint8],
    on_weights: Floats,
) -> None:
    """Each entity sums what flows back from all that see it; each that sees has its own weights."""
    active = chosen.shape[1]
    components = entity.shape[1] // (reals * size)
    for group in prange(len(starts) - 1):
        e = entities[starts[group]]
        touched[e] = 1
        for row in range(starts[group], starts[group + 1]):
            q = queries[row]
            for part in range(reals):
                for c in range(active):
                    source = (part * components + chosen[q, c]) * size
                    target = (part * active + c) * size
                    for i in range(size):
                        on_entity[e, source + i] += weights[q, c] * on_seen[row, target + i]
                        on_weights[row, c] += entity[e, source + i] * on_seen[row, target + i]
