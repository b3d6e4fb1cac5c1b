"""LAN: neighbours are weighed by what they tell about the query (Wang et al., 2019).

An entity, asked about relation q, is Σ α(p, o | q) T_{p}(x_o) over its neighbours (p, o), with
T_r(x) = x - (w_r·x) w_r and ‖w_r‖ = 1. The weights α sum to one and are half logic, half learned:

    logic     ∝ P(p ⇒ q) / max P(u ⇒ p) over the entity's other relations u,
    learned   ∝ exp(v·tanh(W₁ z_q + W₂ T_{p}(x_o))).

A fact (s, r, o) is scored with s asked about r and o about r⁻¹. The loss on encoded rows and the
loss on the rows x themselves are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lkge.config import RunConfig, setting
from lkge.data.batches import Batch
from lkge.data.snapshots import Snapshot, with_inverses
from lkge.methods.base import State, register
from lkge.methods.parts.attention import (
    FROM_NEIGHBOUR,
    FROM_QUERY,
    QUERY,
    VECTOR,
    Attention,
    AttentiveEncoder,
    Logic,
)
from lkge.methods.parts.inductive import (
    TRANSITION,
    Inductive,
    grown,
    or_own,
    transitions,
    xavier,
)
from lkge.methods.parts.logic import discounts, implications
from lkge.methods.parts.neighbours import Neighbourhoods
from lkge.models.encoders import ranges, segment_means
from lkge.models.losses import Loss
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import Predictor, RelationPredictor
from lkge.models.scores import Score


@register
class Lan(Inductive):
    """P is counted on D_1; a relation that D_1 does not have neither implies nor is implied."""

    name: ClassVar[str] = "lan"
    summary: ClassVar[str] = "trained once; later entities attend to neighbours by query"
    keeps: ClassVar[str] = "up to `max_neighbours` facts an entity; which relation implies which"

    class Config(Inductive.Config):
        """The settings of LAN."""

        attention_dim: int = setting(50, "Coordinates of the learned attention, at most.", ge=1)
        min_discount: float = setting(
            0.01, "Lower bound of the logic part's discount of a neighbour.", gt=0, le=1
        )

    config: Config
    sees_query: ClassVar[bool] = True
    relation_wise: ClassVar[tuple[str, ...]] = (TRANSITION, QUERY)

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._set_logic(torch.zeros(0, 0, device=run.training.device))

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
            implies = implications(with_inverses(snapshot.train), size).to(self.run.training.device)
        else:
            implies = grown(grown(self._logic.implies, size).T, size).T.contiguous()
        self._set_logic(implies)

    def encode(self, score: Score, tables: Parameters, entities: Tensor, queries: Tensor) -> Tensor:
        """See `Inductive`."""
        distinct, places = torch.unique(entities, return_inverse=True)
        items, _ = ranges(self.near.starts, distinct)
        logic = Logic(self._logic.implies, self._logic.discount[items])
        attention = self._attention(score, tables, self.near.of(distinct), logic)
        rows = attention.rows(places, queries)
        return or_own(rows, self.near.counts[entities], tables.entity, entities)

    def vectors(self, score: Score, tables: Parameters, entities: Tensor) -> Tensor:
        """See `Inductive`: as nothing is asked yet, all neighbours weigh alike."""
        near = self.near.of(entities)
        return segment_means(transitions(score, tables, near), near.pairs.places, near.starts)

    def loss(self, model: Model) -> Loss:
        """The loss on encoded rows, and the loss on the rows themselves."""
        return Both(super().loss(model), model.loss)

    def predictor(self, model: Model) -> Predictor:
        """Encodes all entities for each relation that is asked."""
        own, counts = model.tables.clone(), self.near.counts
        with torch.no_grad():
            attention = self._attention(model.score, own, self.near, self._logic)
        own.relation = model.score.prepare_relations(own.relation)
        return RelationPredictor(
            AttentiveEncoder(attention, counts, own, model.score, model.backend)
        )

    def state(self) -> State:
        """With P."""
        return super().state() | {"implies": self._logic.implies.cpu()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        super().load_state(state)
        self._set_logic(state["implies"].to(self.run.training.device))

    def _attention(
        self, score: Score, tables: Parameters, near: Neighbourhoods, logic: Logic
    ) -> Attention:
        """The attention that the parameters hold."""
        return Attention.of(score, tables, near, logic)

    def _set_logic(self, implies: Tensor) -> None:
        self._logic = Logic(implies, discounts(self.near, implies, self.config.min_discount))


class Both:
    """The sum of two losses."""

    def __init__(self, first: Loss, second: Loss) -> None:
        self.first, self.second = first, second

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """See `Loss`."""
        return self.first.add_gradient(tables, batch, gradient) + self.second.add_gradient(
            tables, batch, gradient
        )
