"""The margin loss of L1 TransE and its gradient, in kernels.

For a fact (h, r, t) with K corruptions, on L2-normalised rows,

    loss = max(0, γ + ‖h + r - t‖₁ - 1/K Σ_k d_k),
    d_k  = ‖h + r - t'_k‖₁  or  ‖h'_k + r - t‖₁,

averaged over the B facts of the batch. Each gradient on a normalised row is a sum of sign vectors
times 1/(K·B). Threads work on facts first: each fact keeps its loss and the gradient that it has
for its rows. Then threads work on rows: each row sums up the gradients of its facts. So no two
threads write to one row, and a sum has one order whatever the number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.backends.numba.distance import dot, l1
from lkge.backends.numba.jit import Scratch, inlined, parallel, serial
from lkge.backends.torch_losses import MarginLoss
from lkge.data.batches import Batch
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import Score

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Places = NDArray[np.int64]
Flags = NDArray[np.uint8]

EPSILON = np.float32(1e-12)
SUBJECT, OBJECT, CORRUPTION = 0, 1, 2


class FusedMargin(MarginLoss):
    """`MarginLoss` of L1 TransE on the CPU; with adversarial weights it is its plain twin."""

    def __init__(self, score: Score, margin: float, adversarial: float = 0.0) -> None:
        super().__init__(score, margin, adversarial)
        self._scratch = Scratch()

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """See `Loss`."""
        if self.adversarial:
            return super().add_gradient(tables, batch, gradient)
        return margin_gradient(
            tables.entity.numpy(),
            tables.relation.numpy(),
            batch.facts,
            batch.corruptions,
            batch.corrupt_object,
            self.margin,
            gradient.entity.values.numpy(),
            gradient.entity.touched.numpy(),
            gradient.relation.values.numpy(),
            gradient.relation.touched.numpy(),
            self._scratch,
        )


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


class Prepared(NamedTuple):
    """A batch after the pass over its facts: distinct rows, and what each fact holds for them.

    Shapes: entities (u,), relations (v,) and their unit rows and norms; used (B,) places among
    relations; losses (B,); active (a,) facts with a loss; starts (u + 1,) and items: where each
    entity occurs in active facts; centres (2B, d); fact_gradients (3B, d).
    """

    entities: Places
    unit_entity: Floats
    entity_norm: Floats
    relations: Places
    unit_relation: Floats
    relation_norm: Floats
    used: Places
    losses: Floats
    active: Places
    starts: Places
    items: Places
    centres: Floats
    fact_gradients: Floats


def prepared(
    entity: Floats,
    relation: Floats,
    facts: Ints,
    corruptions: Ints,
    corrupt_object: NDArray[np.bool_],
    margin: float,
    scratch: Scratch,
) -> Prepared:
    """Normalise the rows of a batch and work on its facts; valid until the scratch is reused."""
    entities, subjects, objects, corrupted = _compact(facts, corruptions, len(entity))
    relations, used = np.unique(facts[:, 1].astype(np.int64), return_inverse=True)
    size, dim = len(facts), entity.shape[1]
    unit_entity = scratch.take("unit_entity", len(entities), dim)
    unit_relation = scratch.take("unit_relation", len(relations), dim)
    centres = scratch.take("centres", 2 * size, dim)
    fact_gradients = scratch.take("fact_gradients", 3 * size, dim)
    entity_norm = _normalise(entity, entities, unit_entity)
    relation_norm = _normalise(relation, relations, unit_relation)
    losses = _facts_pass(
        unit_entity, unit_relation, subjects, used, objects, corrupted, corrupt_object, margin,
        centres, fact_gradients,
    )  # fmt: skip
    active = np.flatnonzero(losses > 0)
    starts, items = _incidences(len(entities), active, subjects, objects, corrupted, corrupt_object)
    return Prepared(
        entities, unit_entity, entity_norm, relations, unit_relation, relation_norm, used, losses,
        active, starts, items, centres, fact_gradients,
    )  # fmt: skip


@serial
def _compact(facts: Ints, corruptions: Ints, num_entities: int) -> tuple[Any, Any, Any, Any]:
    """The batch's distinct entities, ascending, and the batch in positions among them."""
    size, negatives = corruptions.shape
    position = np.full(num_entities, -1, dtype=np.int32)
    for b in range(size):
        position[facts[b, 0]] = 0
        position[facts[b, 2]] = 0
        for k in range(negatives):
            position[corruptions[b, k]] = 0
    entities = np.flatnonzero(position == 0)
    for place in range(len(entities)):
        position[entities[place]] = place
    subjects = position[facts[:, 0]]
    objects = position[facts[:, 2]]
    corrupted = np.empty((size, negatives), dtype=np.int32)
    for b in range(size):
        for k in range(negatives):
            corrupted[b, k] = position[corruptions[b, k]]
    return entities, subjects, objects, corrupted


@parallel
def _normalise(table: Floats, rows: NDArray[np.int64], unit: Floats) -> Floats:
    """unit = x / max(‖x‖₂, ε) for the given rows, (u, d); return the divisors, (u,)."""
    norm = np.empty(len(rows), dtype=np.float32)
    for u in prange(len(rows)):
        row = rows[u]
        norm[u] = max(np.sqrt(dot(table, row, table, row)), EPSILON)
        inverse = np.float32(1) / norm[u]
        for i in range(table.shape[1]):
            unit[u, i] = table[row, i] * inverse
    return norm


@inlined
def _add_sign(x: Floats, a: int, y: Floats, b: int, weight: int, out: Floats, c: int) -> None:
    """out[c] += weight · sign(x[a] - y[b])."""
    scale = np.float32(weight)
    for i in range(x.shape[1]):
        difference = x[a, i] - y[b, i]
        out[c, i] += scale * (np.float32(difference > 0) - np.float32(difference < 0))


@parallel
def _facts_pass(
    unit_entity: Floats,
    unit_relation: Floats,
    subjects: Ints,
    relations: NDArray[np.int64],
    objects: Ints,
    corrupted: Ints,
    corrupt_object: NDArray[np.bool_],
    margin: float,
    centres: Floats,
    gradients: Floats,
) -> Floats:
    """Fill, for each fact, the centres (t - r, h + r) that corrupted subjects and objects are
    compared with, (2B, d), and, where its loss is positive, the gradients on (h, t, r) in units
    of 1/(K·B), (3B, d). Return the losses, (B,).
    """
    size, negatives = corrupted.shape
    dim = unit_entity.shape[1]
    losses = np.empty(size, dtype=np.float32)
    for b in prange(size):
        head, tail, relation = subjects[b], objects[b], relations[b]
        backward, forward = 2 * b, 2 * b + 1
        for i in range(dim):
            centres[backward, i] = unit_entity[tail, i] - unit_relation[relation, i]
            centres[forward, i] = unit_entity[head, i] + unit_relation[relation, i]
        negative = np.float32(0)
        for k in range(negatives):
            centre = backward + np.int64(corrupt_object[b, k])
            negative += l1(centres, centre, unit_entity, corrupted[b, k])
        positive = l1(centres, forward, unit_entity, tail)
        loss = np.float32(margin) + positive - negative / np.float32(negatives)
        losses[b] = max(loss, np.float32(0))
        if loss <= 0:
            continue
        on_subject, on_object, on_relation = 3 * b, 3 * b + 1, 3 * b + 2
        for i in range(dim):
            gradients[on_subject, i] = 0
            gradients[on_object, i] = 0
        for k in range(negatives):
            other = corrupted[b, k]
            if corrupt_object[b, k]:
                _add_sign(centres, forward, unit_entity, other, -1, gradients, on_subject)
            else:
                _add_sign(centres, backward, unit_entity, other, -1, gradients, on_object)
        for i in range(dim):
            gradients[on_relation, i] = gradients[on_subject, i] - gradients[on_object, i]
        _add_sign(centres, forward, unit_entity, tail, negatives, gradients, on_relation)
        _add_sign(centres, forward, unit_entity, tail, negatives, gradients, on_subject)
        _add_sign(centres, forward, unit_entity, tail, -negatives, gradients, on_object)
    return losses


@serial
def _incidences(
    num_rows: int,
    active: NDArray[np.int64],
    subjects: Ints,
    objects: Ints,
    corrupted: Ints,
    corrupt_object: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each entity of the batch, where it occurs in active facts (compressed rows).

    An item is 4·fact + role: subject, object, corrupted subject or corrupted object.
    """
    negatives = corrupted.shape[1]
    starts = np.zeros(num_rows + 1, dtype=np.int64)
    for b in active:
        starts[subjects[b] + 1] += 1
        starts[objects[b] + 1] += 1
        for k in range(negatives):
            starts[corrupted[b, k] + 1] += 1
    for row in range(num_rows):
        starts[row + 1] += starts[row]
    items = np.empty(starts[num_rows], dtype=np.int64)
    fill = starts[:num_rows].copy()
    for b in active:
        items[fill[subjects[b]]] = 4 * b + SUBJECT
        fill[subjects[b]] += 1
        items[fill[objects[b]]] = 4 * b + OBJECT
        fill[objects[b]] += 1
        for k in range(negatives):
            row = corrupted[b, k]
            items[fill[row]] = 4 * b + CORRUPTION + np.int64(corrupt_object[b, k])
            fill[row] += 1
    return starts, items


@inlined
def add_held(
    item: int, centres: Floats, fact_gradients: Floats, unit: Floats, u: int, gradient: Floats
) -> None:
    """Add to `gradient` (1, d) what the fact of an item holds for entity u."""
    fact, role = item >> 2, item & 3
    if role < CORRUPTION:
        for i in range(unit.shape[1]):
            gradient[0, i] += fact_gradients[3 * fact + role, i]
    else:
        _add_sign(centres, 2 * fact + role - CORRUPTION, unit, u, 1, gradient, 0)
