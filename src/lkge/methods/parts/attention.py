"""Attention of a query relation to neighbours, half logic, half learned: LAN's encoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

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
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Score
from lkge.models.tables import Tables

QUERY, FROM_QUERY, FROM_NEIGHBOUR, VECTOR = "query", "from_query", "from_neighbour", "vector"


@dataclass(frozen=True)
class Logic:
    """P(p ⇒ q), (2m, 2m), and the discount of each neighbour, (items,); see `parts.logic`."""

    implies: Tensor
    discount: Tensor


class Attends(Protocol):
    """The neighbours of some entities, and what is learned of how they are attended to."""

    def rows(self, entities: Tensor, queries: Tensor) -> Tensor:
        """Σ α T for each of the entities (k,), asked about the query relation of each (k,);
        zero without neighbours. Shape (k, d)."""
        ...


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
    def of(cls, score: Score, tables: Tables, near: Neighbourhoods, logic: Logic) -> Attention:
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
        """See `Attends`."""
        return segment_sums(self.moved, *self.weigh(entities, queries))


def blended(logits: Tensor, logic: Tensor, segments: Tensor, count: int) -> Tensor:
    """Weights α (items,) that sum to one in each segment: the softmax of the logits and the share
    of the logic count alike; without any logic the softmax counts alone."""
    learned = segment_softmax(logits, segments, count)
    return segment_shares(learned + segment_shares(logic, segments, count), segments, count)


@dataclass(frozen=True)
class AttentiveEncoder:
    """All entities as each query relation sees them: subjects are asked about r, candidates about
    r⁻¹. What both see is found together and kept until another relation is asked, as r⁻¹ is mostly
    asked after r."""

    attention: Attends
    counts: Tensor
    tables: Tables
    score: Score
    fused: bool
    _recent: dict[int, Tensor] = field(default_factory=dict)

    def at(self, relation: int) -> TablePredictor:
        """See `RelationEncoder`."""
        if relation not in self._recent:
            both = torch.tensor([relation, inverse_of(relation)], device=self.counts.device)
            encoded = self._encoded(both)
            self._recent.clear()
            self._recent.update(zip(both.tolist(), encoded, strict=True))
        return TablePredictor(
            self._recent[inverse_of(relation)],
            self.tables.relation,
            self.score,
            self.fused,
            subject=self._recent[relation],
        )

    def _encoded(self, queries: Tensor) -> Tensor:
        """All entities as each of some queries (k,) sees them, (k, n, d)."""
        own = self.tables.entity
        entities = torch.arange(len(own), device=own.device).repeat(len(queries))
        rows = self.attention.rows(entities, queries.repeat_interleave(len(own)))
        rows = or_own(rows, self.counts[entities], own, entities)
        return self.score.prepare_entities(rows).view(len(queries), *own.shape)
