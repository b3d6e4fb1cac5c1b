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

from typing import NamedTuple, Self

import numpy as np
import torch
from numba import prange
from torch import Tensor

from lkge.backends.numba.distance import dot
from lkge.backends.numba.jit import Buffered, parallel
from lkge.backends.numba.updates import add_distinct
from lkge.backends.torch_autoencoder import Autoencoder
from lkge.data.array_types import Floats, Ints, Places
from lkge.data.snapshots import Facts
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import Score


class Incidence(NamedTuple):
    """A sparse matrix of counts by compressed rows; rows and columns are places among members."""

    starts: Places
    columns: Ints
    counts: Floats

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, height: int, width: int) -> Self:
        """How often each pair of row and column is there."""
        keys, counts = np.unique((rows * width + columns).numpy(), return_counts=True)
        starts = np.searchsorted(keys, np.arange(height + 1) * width).astype(np.int64)
        return cls(starts, (keys % width).astype(np.int32), counts.astype(np.float32))


class FusedAutoencoder(Buffered, Autoencoder):
    """`Autoencoder` of scores that are translations, on the CPU. Relations r and r⁻¹ are members
    together, so their places are 2k and 2k + 1, as their ids are."""

    def __init__(
        self, score: Score, facts: Facts, old: Parameters, past: Parameters, weight: Parameters
    ) -> None:
        super().__init__(score, facts, old, past, weight)
        entities, relations = (len(members) for members in self.members)
        subjects, labels = self._subjects, self._relations
        self.entity_entity = Incidence.of(subjects, self._objects, entities, entities)
        self.entity_relation = Incidence.of(subjects, labels, entities, relations)
        self.relation_entity = Incidence.of(labels, subjects, relations, entities)

    def add_to_members(self, tables: Parameters, gradient: Gradient) -> float:
        entities = self._rows("entities", tables.entity, self.members.entity)
        relations = self._rows("relations", tables.relation, self.members.relation)
        entity_sums = self._scratch.take("entity sums", *entities.shape)
        relation_sums = self._scratch.take("relation sums", *relations.shape)
        _product(*self.entity_entity, entities, 1.0, False, entity_sums)
        _product(*self.entity_relation, relations, -1.0, True, entity_sums)
        _product(*self.relation_entity, entities, -1.0, False, relation_sums)
        _subtract_mirror(relation_sums)
        losses = [
            _residual(
                members.numpy(), new.float().numpy(), rows, sums, old.numpy(), past.numpy(),
                np.float32(float(weight)), part.values.numpy(),
            )
            for members, new, rows, sums, old, past, weight, part in zip(
                self.members, self._new, (entities, relations), (entity_sums, relation_sums),
                self.old, self.past, self.weight, gradient, strict=True,
            )
        ]  # fmt: skip
        entity_flow, relation_flow = entities, relations
        _product(*self.relation_entity, entity_flow, 1.0, False, relation_sums)
        add_distinct(gradient.relation, self.members.relation.numpy(), relation_sums)
        _subtract_mirror(relation_flow)
        _product(*self.entity_entity, entity_flow, -1.0, False, entity_sums)
        _product(*self.entity_relation, relation_flow, 1.0, True, entity_sums)
        add_distinct(gradient.entity, self.members.entity.numpy(), entity_sums)
        return sum(losses)

    def _rows(self, name: str, table: Tensor, members: Tensor) -> Floats:
        """The rows of members, in a buffer."""
        rows = self._scratch.take(name, len(members), table.shape[1])
        torch.index_select(table, 0, members, out=torch.from_numpy(rows))
        return rows


def _subtract_mirror(rows: Floats) -> None:
    """x[r] becomes x[r] - x[r⁻¹]; rows of relations stand at places 2k and 2k + 1."""
    pairs = rows.reshape(-1, 2, rows.shape[1])
    pairs -= pairs[:, ::-1].copy()


@parallel
def _product(
    starts: Places, columns: Ints, counts: Floats, rows: Floats, scale: float,
    add: bool, out: Floats,
) -> None:  # fmt: skip
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
def _residual(
    members: Places, facts: Floats, rows: Floats, sums: Floats, old: Floats, past: Floats,
    weight: np.float32, gradient: Floats,
) -> float:  # fmt: skip
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
