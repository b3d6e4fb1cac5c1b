"""MEAN: an entity is the mean of what its neighbours say (Hamaguchi et al., 2017).

e = mean over its neighbours (r, o) of ReLU(BN(x_o - (w_r·x_o) w_r)),    ‖w_r‖ = 1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Snapshot
from lkge.methods.base import State, register
from lkge.methods.inductive import TRANSITION, Inductive, or_own, transitions, xavier
from lkge.models.encoders import Moments, segment_means, standardise
from lkge.models.model import Model
from lkge.models.parameters import Parameters
from lkge.models.scores import Score

SCALE, SHIFT = "scale", "shift"


@register
class Mean(Inductive):
    """While D_1 is learned, batch normalisation takes its moments from the distinct neighbours in
    use; those of all of D_1, at the end, hold for all that comes later."""

    name = "mean"
    summary = "trained once; later entities are the mean of their neighbours"
    sees_query: ClassVar[bool] = False

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._moments: Moments | None = None

    def drawn(self, num_relations: int, generator: np.random.Generator) -> dict[str, Tensor]:
        """w_r for each relation, and a batch normalisation that changes nothing yet."""
        dim = self.run.model.dim
        return {
            TRANSITION: xavier(2 * num_relations, dim, generator),
            SCALE: torch.ones(1, dim),
            SHIFT: torch.zeros(1, dim),
        }

    def encode(self, score: Score, tables: Parameters, entities: Tensor, queries: Tensor) -> Tensor:
        """See `Inductive`; every query sees the same."""
        near = self.near.of(entities)
        moved = transitions(score, tables, near)
        scale, shift = tables.extra[SCALE][0], tables.extra[SHIFT][0]
        said = standardise(moved, self._moments, scale, shift).relu()
        rows = segment_means(said, near.pairs.places, near.starts)
        return or_own(rows, near.counts, tables.entity, entities)

    def vectors(self, score: Score, tables: Parameters, entities: Tensor) -> Tensor:
        """See `Inductive`."""
        return self.encode(score, tables, entities, torch.zeros_like(entities))

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Keep the moments of D_1."""
        if snapshot.index == 0:
            self._moments = Moments.of(transitions(model.score, model.tables, self.near))

    def inference_parameters(self, model: Model) -> Parameters:
        """Every entity, encoded."""
        everything = torch.arange(len(model.tables.entity), device=self.run.training.device)
        with torch.no_grad():
            rows = self.vectors(model.score, model.tables, everything)
        return Parameters(rows, model.tables.relation)

    def state(self) -> State:
        """With the moments, once they are known."""
        known = {} if self._moments is None else {"moments": torch.stack(self._moments)}
        return super().state() | known

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        super().load_state(state)
        if "moments" in state:
            self._moments = Moments(*state["moments"].to(self.run.training.device))
