"""The margin loss of L1 TransE and its gradient, in kernels.

For a fact (h, r, t) with K corruptions, on L2-normalised rows,

    loss = max(0, γ + ‖h + r - t‖₁ - 1/K Σ_k d_k),
    d_k  = ‖h + r - t'_k‖₁  or  ‖h'_k + r - t‖₁,

averaged over the B facts of the batch. Each gradient on a normalised row is a sum of sign vectors
times 1/(K·B). Threads work on facts first: each fact keeps its loss and the gradient that it has
for its rows. Then threads work on rows: each row sums up the gradients of its facts. So no two
threads write to one row, and a sum has one order whatever the number of threads.
"""

import numpy as np
from numba import prange

from lkge.backends.numba.distance import dot, l1
from lkge.backends.numba.jit import Buffered, inlined, parallel, serial
from lkge.backends.numba.updates import grouped
from lkge.backends.torch_losses import MarginLoss
from lkge.data.array_types import Bytes, Flags, Floats, Ints, Places
from lkge.data.batches import Batch
from lkge.models.parameters import Gradient, Parameters

EPSILON = np.float32(1e-12)
SUBJECT, OBJECT, CORRUPTION = 0, 1, 2


class FusedMargin(Buffered, MarginLoss):
    """`MarginLoss` of L1 TransE on the CPU; with adversarial weights it is its plain twin."""

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        if self.adversarial:
            return super().add_gradient(tables, batch, gradient)
        size, negatives = batch.corruptions.shape
        used = np.concatenate([batch.facts[:, ::2], batch.corruptions], axis=1)
        entities, places = _compact(used, len(tables.entity))
        relations, labels = np.unique(batch.facts[:, 1].astype(np.int64), return_inverse=True)
        unit_entity, entity_norm = self._unit_rows("entity", tables.entity.numpy(), entities)
        unit_relation, relation_norm = self._unit_rows(
            "relation", tables.relation.numpy(), relations
        )
        dim = unit_entity.shape[1]
        centres = self._scratch.take("centres", 2 * size, dim)
        on_facts = self._scratch.take("on facts", 3 * size, dim)
        losses = _facts_pass(
            unit_entity, unit_relation, places, labels, batch.corrupt_object, self.margin, centres,
            on_facts,
        )  # fmt: skip
        active = np.flatnonzero(losses > 0)
        starts, order = grouped(places[active].reshape(-1), len(entities))
        items = _items(active, batch.corrupt_object).reshape(-1)[order]
        scale = np.float32(1.0 / (negatives * size))
        _entities_pass(
            entities, unit_entity, entity_norm, starts, items, centres, on_facts, scale,
            gradient.entity.values.numpy(), gradient.entity.touched.numpy(),
        )  # fmt: skip
        _relations_pass(
            relations, unit_relation, relation_norm, labels, active, on_facts, scale,
            gradient.relation.values.numpy(), gradient.relation.touched.numpy(),
        )  # fmt: skip
        return float(losses.sum(dtype=np.float64) / size)

    def _unit_rows(self, name: str, table: Floats, rows: Places) -> tuple[Floats, Floats]:
        """x / max(‖x‖₂, ε) for the given rows, (u, d), in a buffer, and the divisors, (u,)."""
        unit = self._scratch.take(name, len(rows), table.shape[1])
        return unit, _normalise(table, rows, unit)


def _compact(used: Ints, num_entities: int) -> tuple[Places, Ints]:
    """The distinct entities among those `used` (B, k), ascending, and the place of each there."""
    position = np.zeros(num_entities, dtype=np.int32)
    position[used] = 1
    entities = np.flatnonzero(position)
    position[entities] = np.arange(len(entities))
    return entities, position[used]


def _items(active: Places, corrupt_object: Flags) -> Places:
    """What an entity is in active facts (a,), as 4·fact + role, (a, 2 + K): subject, object, and
    corrupted subjects or objects."""
    corrupted = CORRUPTION + corrupt_object[active].astype(np.int64)
    ends = np.broadcast_to([SUBJECT, OBJECT], (len(active), 2))
    items: Places = 4 * active[:, None] + np.concatenate([ends, corrupted], axis=1)
    return items


@parallel
def _normalise(table: Floats, rows: Places, unit: Floats) -> Floats:
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
    entity: Floats, relation: Floats, places: Ints, labels: Places,
    corrupt_object: Flags, margin: float, centres: Floats, gradients: Floats,
) -> Floats:  # fmt: skip
    """Fill, for each fact, the centres (t - r, h + r) that corrupted subjects and objects are
    compared with, (2B, d), and, where its loss is positive, the gradients on (h, t, r) in units
    of 1/(K·B), (3B, d). Return the losses, (B,). Rows have unit length; those of a fact are
    `places` (B, 2 + K): subject, object, corruptions."""
    size, negatives = corrupt_object.shape
    losses = np.empty(size, dtype=np.float32)
    for b in prange(size):
        head, tail, others, label = places[b, 0], places[b, 1], places[b, 2:], labels[b]
        backward, forward = 2 * b, 2 * b + 1
        for i in range(entity.shape[1]):
            centres[backward, i] = entity[tail, i] - relation[label, i]
            centres[forward, i] = entity[head, i] + relation[label, i]
        negative = np.float32(0)
        for k in range(negatives):
            centre = backward + np.int64(corrupt_object[b, k])
            negative += l1(centres, centre, entity, others[k])
        positive = l1(centres, forward, entity, tail)
        loss = np.float32(margin) + positive - negative / np.float32(negatives)
        losses[b] = max(loss, np.float32(0))
        if loss <= 0:
            continue
        on_subject, on_object, on_relation = 3 * b, 3 * b + 1, 3 * b + 2
        gradients[on_subject : on_object + 1] = 0
        for k in range(negatives):
            if corrupt_object[b, k]:
                _add_sign(centres, forward, entity, others[k], -1, gradients, on_subject)
            else:
                _add_sign(centres, backward, entity, others[k], -1, gradients, on_object)
        for i in range(entity.shape[1]):
            gradients[on_relation, i] = gradients[on_subject, i] - gradients[on_object, i]
        _add_sign(centres, forward, entity, tail, negatives, gradients, on_relation)
        _add_sign(centres, forward, entity, tail, negatives, gradients, on_subject)
        _add_sign(centres, forward, entity, tail, -negatives, gradients, on_object)
    return losses


@inlined
def _add_through_norm(
    gradient: Floats, g: int, unit: Floats, u: int, factor: np.float32, out: Floats, c: int
) -> None:
    """out[c] += factor · (g - (g·x̂) x̂): what a gradient g on x̂ = x/‖x‖ means for x, where the
    factor has 1/‖x‖."""
    along = dot(gradient, g, unit, u)
    for i in range(unit.shape[1]):
        out[c, i] += factor * (gradient[g, i] - along * unit[u, i])


@parallel
def _entities_pass(
    entities: Places, unit: Floats, norm: Floats, starts: Ints, items: Places, centres: Floats,
    on_facts: Floats, scale: np.float32, target: Floats, touched: Bytes,
) -> None:  # fmt: skip
    """Each entity of the batch sums what its facts hold for it."""
    dim = unit.shape[1]
    for u in prange(len(entities)):
        touched[entities[u]] = 1
        if starts[u] == starts[u + 1]:
            continue
        gradient = np.zeros((1, dim), dtype=np.float32)
        for place in range(starts[u], starts[u + 1]):
            fact, role = items[place] >> 2, items[place] & 3
            if role < CORRUPTION:
                for i in range(dim):
                    gradient[0, i] += on_facts[3 * fact + role, i]
            else:
                _add_sign(centres, 2 * fact + role - CORRUPTION, unit, u, 1, gradient, 0)
        _add_through_norm(gradient, 0, unit, u, scale / norm[u], target, entities[u])


@serial
def _relations_pass(
    relations: Places, unit: Floats, norm: Floats, labels: Places, active: Places,
    on_facts: Floats, scale: np.float32, target: Floats, touched: Bytes,
) -> None:  # fmt: skip
    """Each relation of the batch sums what its facts hold for it."""
    gradients = np.zeros_like(unit)
    for b in active:
        for i in range(unit.shape[1]):
            gradients[labels[b], i] += on_facts[3 * b + 2, i]
    for u in range(len(relations)):
        touched[relations[u]] = 1
        _add_through_norm(gradients, u, unit, u, scale / norm[u], target, relations[u])
