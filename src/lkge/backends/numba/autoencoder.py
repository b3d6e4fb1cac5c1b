"""The masked autoencoder of TransE: reconstruction from neighbours, its loss and gradient, fused.

Over the edges (x, r, y) of D ∪ D⁻¹, with A the entity-entity and B the entity-relation incidence
counts, the sums of Eqs. (5) and (6) are sparse products:

    Σ f_sub(r, y) = A·E - B·R                for entities,
    Σ f_rel(x, y) = (Bᵀ·E)[r⁻¹] - (Bᵀ·E)[r]  for relations.

With δ = x - x̄ and G = 2w·δ/c on entities, H likewise on relations (c: facts old and new), the
gradient of w‖δ‖² flows back through the same products:

    ∂E = 2w·δ - A·G + B·(H[r] - H[r⁻¹]),   ∂R = 2w·δ + Bᵀ·G.

Every product is row-parallel with a fixed order of summation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.backends.numba.distance import dot
from lkge.backends.numba.jit import Scratch, parallel
from lkge.backends.torch_autoencoder import Autoencoder
from lkge.data.snapshots import Facts, with_inverses
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import Score

Floats = NDArray[np.float32]
Places = NDArray[np.int64]


class FusedAutoencoder(Autoencoder):
    """`Autoencoder` of scores that are translations, on the CPU."""

    def __init__(
        self, score: Score, facts: Facts, old: Parameters, past: Parameters, weight: Parameters
    ) -> None:
        super().__init__(score, facts, old, past, weight)
        self._near = neighbourhood(with_inverses(facts))
        self._scratch = Scratch()

    def add_to_members(self, tables: Parameters, gradient: Gradient) -> float:
        """See `Autoencoder`."""
        return reconstruction_gradient(
            self._near,
            tables.entity.numpy(),
            tables.relation.numpy(),
            self.old.entity.numpy(),
            self.old.relation.numpy(),
            self.past.entity.numpy(),
            self.past.relation.numpy(),
            float(self.weight.entity),
            float(self.weight.relation),
            gradient.entity.values.numpy(),
            gradient.relation.values.numpy(),
            self._scratch,
        )


class Incidence(NamedTuple):
    """A sparse matrix of counts by compressed rows; rows and columns are places among members."""

    starts: Places
    columns: NDArray[np.int32]
    counts: Floats


class Neighbourhood(NamedTuple):
    """Who occurs in D ∪ D⁻¹, and with whom. Whoever has no edge is no member, and never visited.

    Relations r and r⁻¹ are members together, so their places are 2k and 2k + 1, as their ids are.
    """

    entities: Places
    relations: Places
    entity_facts: Floats
    relation_facts: Floats
    entity_entity: Incidence
    entity_relation: Incidence
    relation_entity: Incidence


def neighbourhood(edges: NDArray[np.int32]) -> Neighbourhood:
    """The incidence counts of D ∪ D⁻¹, given with its inverses, shape (2n, 3)."""
    entities, subjects = np.unique(edges[:, 0], return_inverse=True)
    relations, labels = np.unique(edges[:, 1], return_inverse=True)
    objects = np.searchsorted(entities, edges[:, 2])
    return Neighbourhood(
        entities=entities.astype(np.int64),
        relations=relations.astype(np.int64),
        entity_facts=np.bincount(subjects).astype(np.float32),
        relation_facts=np.bincount(labels).astype(np.float32),
        entity_entity=_incidence(subjects, objects, len(entities), len(entities)),
        entity_relation=_incidence(subjects, labels, len(entities), len(relations)),
        relation_entity=_incidence(labels, subjects, len(relations), len(entities)),
    )


def _incidence(rows: Places, columns: Places, height: int, width: int) -> Incidence:
    keys, counts = np.unique(rows * width + columns, return_counts=True)
    return Incidence(
        starts=np.searchsorted(keys, np.arange(height + 1) * width).astype(np.int64),
        columns=(keys % width).astype(np.int32),
        counts=counts.astype(np.float32),
    )


def reconstruction_gradient(
    near: Neighbourhood,
    entity: Floats,
    relation: Floats,
    entity_old: Floats,
    relation_old: Floats,
    entity_past: Floats,
    relation_past: Floats,
    entity_weight: float,
    relation_weight: float,
    entity_gradient: Floats,
    relation_gradient: Floats,
    scratch: Scratch,
) -> float:
    """Add the gradient of w_E Σ ‖e - ē‖² + w_R Σ ‖r - r̄‖² over the members; return the loss.

    `*_old` are last snapshot's rows, (k, d), for rows below k; `*_past` the number of earlier
    facts of each row, (n,), zero for new rows.
    """
    entity_shape = (len(near.entities), entity.shape[1])
    relation_shape = (len(near.relations), entity.shape[1])
    entities = scratch.take("entities", *entity_shape)
    entity_sums = scratch.take("entity_sums", *entity_shape)
    relations = scratch.take("relations", *relation_shape)
    relation_sums = scratch.take("relation_sums", *relation_shape)

    _gather(entity, near.entities, entities)
    _gather(relation, near.relations, relations)
    _product(*near.entity_entity, entities, 1.0, False, entity_sums)
    _product(*near.entity_relation, relations, -1.0, True, entity_sums)
    _product(*near.relation_entity, entities, -1.0, False, relation_sums)
    _subtract_mirror(relation_sums)
    entity_loss = _residual(
        near.entities, near.entity_facts, entities, entity_sums, entity_old, entity_past,
        np.float32(entity_weight), entity_gradient,
    )  # fmt: skip
    relation_loss = _residual(
        near.relations, near.relation_facts, relations, relation_sums, relation_old, relation_past,
        np.float32(relation_weight), relation_gradient,
    )  # fmt: skip
    entity_flow, relation_flow = entities, relations
    _product(*near.relation_entity, entity_flow, 1.0, False, relation_sums)
    _scatter(near.relations, relation_sums, relation_gradient)
    _subtract_mirror(relation_flow)
    _product(*near.entity_entity, entity_flow, -1.0, False, entity_sums)
    _product(*near.entity_relation, relation_flow, 1.0, True, entity_sums)
    _scatter(near.entities, entity_sums, entity_gradient)
    return entity_loss + relation_loss


def _subtract_mirror(rows: Floats) -> None:
    """x[r] becomes x[r] - x[r⁻¹]; rows of relations stand at places 2k and 2k + 1."""
    pairs = rows.reshape(-1, 2, rows.shape[1])
    pairs -= pairs[:, ::-1].copy()


@parallel
def _product(
    starts: Places,
    columns: NDArray[np.int32],
    counts: Floats,
    rows: Floats,
    scale: float,
    add: bool,
    out: Floats,
) -> None:
    """out = scale · M·rows, or out += that. Four terms a pass spare traffic on `out`."""
    dim = rows.shape[1]
    factor = np.float32(scale)
    for u in prange(len(starts) - 1):
        if not add:
            for i in range(dim):
                out[u, i] = 0
        place, stop = starts[u], starts[u + 1]
        while place + 4 <= stop:
            a, b, c, d = columns[place], columns[place + 1], columns[place + 2], columns[place + 3]
            ka, kb = factor * counts[place], factor * counts[place + 1]
            kc, kd = factor * counts[place + 2], factor * counts[place + 3]
            for i in range(dim):
                out[u, i] += ka * rows[a, i] + kb * rows[b, i] + kc * rows[c, i] + kd * rows[d, i]
            place += 4
        while place < stop:
            a, ka = columns[place], factor * counts[place]
            for i in range(dim):
                out[u, i] += ka * rows[a, i]
            place += 1


@parallel
def _gather(table: Floats, members: Places, out: Floats) -> None:
    for u in prange(len(members)):
        for i in range(table.shape[1]):
            out[u, i] = table[members[u], i]


@parallel
def _scatter(members: Places, rows: Floats, gradient: Floats) -> None:
    for u in prange(len(members)):
        for i in range(rows.shape[1]):
            gradient[members[u], i] += rows[u, i]


@parallel
def _residual(
    members: Places,
    facts: Floats,
    rows: Floats,
    sums: Floats,
    old: Floats,
    past: Floats,
    weight: np.float32,
    gradient: Floats,
) -> float:
    """δ = x - (past·x_old + sums)/c with c = past + facts: gradient += 2w·δ, then `rows` holds the
    flow 2w·δ/c to the neighbours; return w Σ ‖δ‖²."""
    squares = np.zeros(len(members), dtype=np.float64)
    twice = np.float32(2) * weight
    for u in prange(len(members)):
        x = members[u]
        known = past[x]
        inverse = np.float32(1) / (known + facts[u])
        if known > 0:
            for i in range(rows.shape[1]):
                sums[u, i] += known * old[x, i]
        for i in range(rows.shape[1]):
            rows[u, i] -= sums[u, i] * inverse
        squares[u] = weight * dot(rows, u, rows, u)
        for i in range(rows.shape[1]):
            flow = twice * rows[u, i]
            gradient[x, i] += flow
            rows[u, i] = flow * inverse
    return float(squares.sum())
