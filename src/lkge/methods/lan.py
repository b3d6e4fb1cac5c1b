"""LAN: neighbours are weighed by what they tell about the query (Wang et al., 2019).

An entity, asked about relation q, is Σ α(p, o | q) T_{p}(x_o) over its neighbours (p, o), with
T_r(x) = x - (w_r·x) w_r and ‖w_r‖ = 1. The weights α sum to one and are half logic, half learned:

    logic     ∝ P(p ⇒ q) / max P(u ⇒ p) over the entity's other relations u,
    learned   ∝ exp(v·tanh(W₁ z_q + W₂ T_{p}(x_o))).

A fact (s, r, o) is scored with s asked about r and o about r⁻¹. The loss on encoded rows and the
loss on the rows x themselves are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lkge.backends import Backend
from lkge.config import RunConfig
from lkge.data.batches import Batch
from lkge.data.snapshots import Facts, Snapshot, inverse_of, with_inverses
from lkge.methods.base import State, register
from lkge.methods.inductive import TRANSITION, Inductive, grown, or_own, transitions, xavier
from lkge.methods.lan_settings import LanConfig
from lkge.methods.neighbours import Neighbourhoods
from lkge.models import encoders
from lkge.models.encoders import ranges, segment_of, segment_shares
from lkge.models.losses import Loss
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters, index
from lkge.models.predictor import Predictor, RelationPredictor, TablePredictor
from lkge.models.scores import Score

QUERY, FROM_QUERY, FROM_NEIGHBOUR, VECTOR = "query", "from_query", "from_neighbour", "vector"
TOGETHER = 1 << 25
"""Bytes of rows that are encoded together, if that is more than one relation's."""


@register
class Lan(Inductive):
    """P is counted on D_1; a relation that D_1 does not have neither implies nor is implied."""

    name = "lan"

    Config = LanConfig
    config: LanConfig
    sees_query = True
    relation_wise = (TRANSITION, QUERY)

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._set_logic(torch.zeros(0, 0, device=self.device))

    def drawn(self, num_relations: int, generator: np.random.Generator) -> dict[str, Tensor]:
        """w_r and z_q for each relation, W₁, W₂ and v."""
        dim, width = self.run.model.dim, min(self.run.model.dim, self.config.attention_dim)
        return {
            TRANSITION: xavier(2 * num_relations, dim, generator),
            QUERY: xavier(2 * num_relations, dim, generator),
            FROM_QUERY: xavier(width, dim, generator),
            FROM_NEIGHBOUR: xavier(width, dim, generator),
            VECTOR: xavier(1, width, generator),
        }

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """As always; then see what implies what."""
        super().grow(model, snapshot)
        size = 2 * snapshot.num_relations
        if snapshot.index == 0:
            implies = implications(with_inverses(snapshot.train), size).to(self.device)
        else:
            implies = grown(grown(self._logic.implies, size).T, size).T.contiguous()
        self._set_logic(implies)

    def encode(self, score: Score, tables: Parameters, entities: Tensor, queries: Tensor) -> Tensor:
        distinct, places = torch.unique(entities, return_inverse=True)
        items, _ = ranges(self.near.starts, distinct)
        logic = Logic(self._logic.implies, self._logic.discount[items])
        attention = self._attention(score, tables, self.near.of(distinct), logic)
        rows = attention.rows(places, queries)
        return or_own(rows, self.near.counts[entities], tables.entity, entities)

    def vectors(self, score: Score, tables: Parameters, entities: Tensor) -> Tensor:
        """See `Inductive`: as nothing is asked yet, all neighbours weigh alike."""
        near = self.near.of(entities)
        moved = transitions(score, tables, near)
        return encoders.segment_means(moved, near.pairs.places, near.starts)

    def loss(self, model: Model) -> Loss:
        """The loss on encoded rows, and the loss on the rows themselves."""
        return LossSum([super().loss(model), model.loss])

    def predictor(self, model: Model) -> Predictor:
        """Encodes all entities for each relation that is asked."""
        own = model.tables.clone()
        with torch.no_grad():
            attention = self._attention(model.score, own, self.near, self._logic)
        own.relation = model.score.prepare_relations(own.relation)
        return RelationPredictor(AttentiveEncoder(attention, own, model.score, model.backend))

    def state(self) -> State:
        """With P."""
        return super().state() | {"implies": self._logic.implies.cpu()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_state(state)
        self._set_logic(state["implies"].to(self.device))

    def _attention(
        self, score: Score, tables: Parameters, near: Neighbourhoods, logic: Logic
    ) -> Attention:
        """The attention that the parameters hold."""
        moved, own = transitions(score, tables, near), tables.extra
        keys, queries = moved @ own[FROM_NEIGHBOUR].T, own[QUERY] @ own[FROM_QUERY].T
        return Attention(near, logic, moved, keys, queries, own[VECTOR][0].clone())

    def _set_logic(self, implies: Tensor) -> None:
        self._logic = Logic(implies, discounts(self.near, implies, self.config.min_discount))


@dataclass(frozen=True)
class LossSum:
    """The sum of some losses."""

    losses: Sequence[Loss]

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """See `Loss`."""
        return sum(loss.add_gradient(tables, batch, gradient) for loss in self.losses)


class Logic(NamedTuple):
    """P(p ⇒ q), (2m, 2m), of `implications`; the discount of each neighbour, (items,), of
    `discounts`."""

    implies: Tensor
    discount: Tensor


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

    def weigh(self, entities: Tensor, queries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The neighbours of entities (k,), weighed for the query relation of each (k,): their place
        among the distinct ones, where each entity's start, and the weight α of each. The softmax
        and the share of the logic count alike; without any logic the softmax counts alone."""
        near = self.near
        items, starts = ranges(near.starts, entities)
        segments, places = segment_of(starts), near.pairs.places[items]
        asked = queries[segments]
        logits = encoders.additive_attention(self.queries, asked, self.keys, places, self.vector)
        learned = encoders.segment_softmax(logits, segments, len(entities))
        logic = self.logic.implies[near.relations[items], asked] / self.logic.discount[items]
        both = learned + segment_shares(logic, segments, len(entities))
        return places, starts, segment_shares(both, segments, len(entities))

    def rows(self, entities: Tensor, queries: Tensor) -> Tensor:
        """Σ α T for each of the entities (k,), for the query relation of each (k,); zero without
        neighbours. Shape (k, d)."""
        return encoders.segment_sums(self.moved, *self.weigh(entities, queries))


@dataclass(frozen=True)
class AttentiveEncoder:
    """All entities as each query relation sees them: subjects are asked about r, candidates about
    r⁻¹. What was found for the last relation that was asked alone is kept."""

    attention: Attention
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
        own, counts = self.tables.entity, self.attention.near.counts
        every = torch.arange(len(own), device=own.device)
        asked = index(np.array(queries), own.device).repeat_interleave(len(own))
        all_rows = self.attention.rows(every.repeat(len(queries)), asked)
        return {
            query: self.score.prepare_entities(or_own(rows, counts, own, every))
            for query, rows in zip(queries, torch.split(all_rows, len(own)), strict=True)
        }


def meetings(
    subjects: Tensor, relations: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of the distinct (entity, relation) of facts, relations below `size`: the relation of each,
    (k,); the place of each fact among them; and which meet in one entity, as two places, (t,)."""
    keys, places = torch.unique(subjects * size + relations, return_inverse=True)
    entities = keys // size
    starts = torch.nn.functional.pad(torch.bincount(entities).cumsum(0), (1, 0))
    another, begins = ranges(starts, entities)
    return keys % size, places, segment_of(begins), another


def implications(edges: Facts, size: int) -> Tensor:
    """P(p ⇒ q), the share of entities with p that have q too, (size, size); zero where p has no
    fact."""
    subjects, relations, _ = torch.from_numpy(edges).long().T
    met, _, one, another = meetings(subjects, relations, size)
    together = torch.bincount(met[one] * size + met[another], minlength=size * size)
    together = together.view(size, size).float()
    return together / together.diagonal().clamp(min=1)[:, None]


def discounts(near: Neighbourhoods, implies: Tensor, least: float) -> Tensor:
    """For each neighbour (p, o) the largest P(u ⇒ p) over the entity's other relations u, (items,):
    what another neighbour says already counts for less. At least `least`: relations of a new entity
    may never have met before."""
    met, places, one, another = meetings(near.subjects, near.relations, len(implies))
    strengths = implies[met[another], met[one]].masked_fill(one == another, 0)
    largest = implies.new_full((len(met),), least)
    return largest.scatter_reduce(0, one, strengths, "amax")[places]
