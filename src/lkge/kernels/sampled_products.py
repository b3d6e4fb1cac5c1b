"""The softmax over a fact and its corruptions under a bilinear score, and its gradient.

The score of a triple is the inner product of either end with a centre that the other two make:

    f(h, r, t) = ⟨h·r, t⟩ = ⟨h, ∂f/∂h⟩,

so that a fact has two centres, and every corruption is scored by the entity put in and one of them.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.distance import add_scaled, dot
from lkge.kernels.jit import parallel, serial

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


@parallel
def sampled_softmax(
    entity: Floats,
    centres: Floats,
    put_in: Ints,
    which: Ints,
    adversarial: float,
    smoothing: float,
    slopes: Floats,
    on_centres: Floats,
) -> float:
    """The mean over facts of `lkge.models.losses.sampled_softmax_loss`. Its slopes on the scores
    are written to `slopes` (B, 1 + K), its gradient on centres is added to `on_centres` (c, d).

    Shapes: entity (n, d), centres (c, d), the places in these of all that is scored, first the
    fact's own and then those put in, (B, 1 + K). No two facts share a centre.
    """
    facts, scored = put_in.shape
    losses = np.empty(facts, dtype=np.float64)
    for b in prange(facts):
        logits = slopes[b]
        for k in range(scored):
            logits[k] = dot(entity, put_in[b, k], centres, which[b, k])
        if adversarial:
            _weigh(logits[1:], adversarial)
        highest, mean = logits.max(), logits.mean()
        own, total = logits[0], np.float32(0)
        for k in range(scored):
            logits[k] = np.exp(logits[k] - highest)
            total += logits[k]
        losses[b] = highest + np.log(total) - (1 - smoothing) * own - smoothing * mean
        for k in range(scored):
            logits[k] = (logits[k] / total - np.float32(smoothing / scored)) / np.float32(facts)
        logits[0] -= np.float32((1 - smoothing) / facts)
        for k in range(scored):
            add_scaled(on_centres, which[b, k], slopes[b, k], entity, put_in[b, k])
    return float(losses.mean())


@serial
def _weigh(negatives: Floats, adversarial: float) -> None:
    """f_k becomes f_k + log (K softmax_k(τ f_k)), in place."""
    tau = np.float32(adversarial)
    highest = negatives.max()
    total = np.float32(0)
    for score in negatives:
        total += np.exp(tau * (score - highest))
    shift = np.float32(np.log(len(negatives))) - tau * highest - np.log(total)
    for k in range(len(negatives)):
        negatives[k] += tau * negatives[k] + shift


@parallel
def _add_by_entity(
    centres: Floats,
    which: Ints,
    slopes: Floats,
    starts: Ints,
    order: Ints,
    on_entity: Floats,
    touched: NDArray[np.uint8],
) -> None:
    for e in prange(len(starts) - 1):
        if starts[e] == starts[e + 1]:
            continue
        touched[e] = 1
        for place in range(starts[e], starts[e + 1]):
            scored = order[place]
            add_scaled(on_entity, e, slopes[scored], centres, which[scored])


@serial
def _grouped(rows: Ints, size: int) -> tuple[Ints, Ints]:
    """Places of `rows` in the order of their values, those of value v from `starts[v]` up to
    `starts[v + 1]`; (size + 1,) and (len(rows),)."""
    starts = np.zeros(size + 1, dtype=np.int32)
    for row in rows:
        starts[row + 1] += 1
    for value in range(size):
        starts[value + 1] += starts[value]
    ends, order = starts[:-1].copy(), np.empty(len(rows), dtype=np.int32)
    for place in range(len(rows)):
        order[ends[rows[place]]] = place
        ends[rows[place]] += 1
    return starts, order


def add_to_entities(
    centres: Floats,
    put_in: Ints,
    which: Ints,
    slopes: Floats,
    on_entity: Floats,
    touched: NDArray[np.uint8],
) -> None:
    """Add Σ slope · centre to the gradient on each entity put in, (n, d), and mark it touched. The
    facts are taken entity by entity, so that threads never meet."""
    starts, order = _grouped(put_in.reshape(-1), len(on_entity))
    flat = which.reshape(-1), slopes.reshape(-1)
    _add_by_entity(centres, *flat, starts, order, on_entity, touched)
