"""Attention of a query relation to neighbours, half logic, half learned: LAN's encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lkge.backends import Backend
from lkge.data.snapshots import inverse_of
from lkge.methods.parts.inductive import or_own, transitions
from lkge.methods.parts.neighbours import Neighbourhoods
from lkge.models.encoders import (
    additive_attention,
    ranges,
    segment_of,
    segment_shares,
    segment_softmax,
    segment_sums,
)
from lkge.models.parameters import Parameters, index
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Score

QUERY, FROM_QUERY, FROM_NEIGHBOUR, VECTOR = "query", "from_query", "from_neighbour", "vector"
TOGETHER = 1 << 25
"""Bytes of rows that are encoded together, if that is more than one relation's."""


@dataclass(frozen=True)
class Logic:
    """P(p ⇒ q), (2m, 2m), and the discount of each neighbour, (items,); see `parts.logic`."""

    implies: Tensor
    discount: Tensor


class Weighed(NamedTuple):
    """Neighbours of k entities: their places among the distinct ones, where each entity's start,
    and the weight α of each."""

    places: Tensor
    starts: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Attention:
    """What does not depend on the query: neighbours, T (p, d), W₂T (p, a) of each distinct one,
    W₁z (2m, a) and v (a,)."""

    near: Neighbourhoods
    logic: Logic
    moved: Tensor
    keys: Tensor
    queries: Tensor
    vector: Tensor

    @classmethod
    def of(cls, score: Score, tables: Parameters, near: Neighbourhoods, logic: Logic) -> Attention:
        """The attention that the tables hold."""
        moved, own = transitions(score, tables, near), tables.extra
        keys, queries = moved @ own[FROM_NEIGHBOUR].T, own[QUERY] @ own[FROM_QUERY].T
        return cls(near, logic, moved, keys, queries, own[VECTOR][0].clone())

    def weigh(self, entities: Tensor, queries: Tensor) -> Weighed:
        """The neighbours of entities (k,), weighed for the query relation of each (k,)."""
        near = self.near
        items, starts = ranges(near.starts, entities)
        segments, places = segment_of(starts), near.pairs.places[items]
        asked = queries[segments]
        logits = additive_attention(self.queries, asked, self.keys, places, self.vector)
        logic = self.logic.implies[near.relations[items], asked] / self.logic.discount[items]
        return Weighed(places, starts, blended(logits, logic, segments, len(entities)))

    def rows(self, entities: Tensor, queries: Tensor) -> Tensor:
        """Σ α T for each of the entities (k,), for the query relation of each (k,); zero without
        neighbours. Shape (k, d)."""
        return segment_sums(self.moved, *self.weigh(entities, queries))

    def all_rows(self, queries: Tensor) -> Tensor:
        """`rows` of all n entities, for each of some queries (q,); shape (q, n, d)."""
        every = torch.arange(len(self.near), device=queries.device)
        rows = self.rows(every.repeat(len(queries)), queries.repeat_interleave(len(every)))
        return rows.view(len(queries), len(every), -1)


def blended(logits: Tensor, logic: Tensor, segments: Tensor, count: int) -> Tensor:
    """Weights α (items,) that sum to one in each segment: the softmax of the logits and the share
    of the logic count alike; without any logic the softmax counts alone."""
    learned = segment_softmax(logits, segments, count)
    return segment_shares(learned + segment_shares(logic, segments, count), segments, count)


@dataclass(frozen=True)
class AttentiveEncoder:
    """All entities as each query relation sees them: subjects are asked about r, candidates about
    r⁻¹. What was found for the last relation that was asked alone is kept."""

    attention: Attention
    counts: Tensor
    tables: Parameters
    score: Score
    backend: Backend
    _last: dict[int, Tensor] = field(default_factory=dict)

    def at(self, relation: int) -> TablePredictor:
        """See `RelationEncoder`."""
        if relation not in self._last:
            encoded = self._encoded([relation])
            self._last.clear()
            self._last.update(encoded)
        return self._predictor(self._last, relation)

    def each(self, relations: Sequence[int]) -> Iterator[TablePredictor]:
        """See `RelationEncoder`; neighbours are visited once for all that are encoded together."""
        size = 2 * max(1, TOGETHER // max(1, 2 * self.tables.entity.nbytes))
        for start in range(0, len(relations), size):
            some = relations[start : start + size]
            encoded = self._encoded(some)
            yield from (self._predictor(encoded, relation) for relation in some)

    def _predictor(self, encoded: Mapping[int, Tensor], relation: int) -> TablePredictor:
        candidates, subjects = encoded[inverse_of(relation)], encoded[relation]
        relations = self.tables.relation
        return TablePredictor(candidates, relations, self.score, self.backend, subject=subjects)

    def _encoded(self, relations: Sequence[int]) -> dict[int, Tensor]:
        """All entities, (n, d), as each of some relations and their inverses sees them."""
        queries = sorted({query for r in relations for query in (r, inverse_of(r))})
        own, device = self.tables.entity, self.counts.device
        every = torch.arange(len(own), device=device)
        all_rows = self.attention.all_rows(index(np.array(queries), device))
        return {
            query: self.score.prepare_entities(or_own(rows, self.counts, own, every))
            for query, rows in zip(queries, all_rows, strict=True)
        }
