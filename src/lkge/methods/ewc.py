"""EWC: hold each coordinate by its Fisher information (Kirkpatrick et al., 2017).

    L = L_new + α Σ F (θ - θ*)²,   F = Σ_{j < i} Σ_{x ∈ D_j ∪ D_j⁻¹} (∂ℓ(x)/∂θ)²,

ℓ(x) the loss of one fact at the end of its snapshot, θ* the tables of the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from lkge.config import MethodConfig, RunConfig, setting
from lkge.data.batches import batches
from lkge.data.snapshots import Snapshot, with_inverses
from lkge.methods.base import Method, State, register
from lkge.methods.regularization import QuadraticPenalty, penalty_at
from lkge.models.model import INFORM, Model, stream
from lkge.models.parameters import Gradient, Parameters, no_parameters


@register
class Ewc(Method):
    """Fisher information is accumulated over snapshots; only rows that were learned are held."""

    name: ClassVar[str] = "ewc"
    summary: ClassVar[str] = "hold each coordinate by its Fisher information"
    keeps: ClassVar[str] = "one number a coordinate"
    supports_partial_updates = True

    class Config(MethodConfig):
        """The settings of EWC."""

        regularization_weight: float = setting(
            0.01, "α: weight of the pull towards the old embeddings.",
            ge=0, grid=(0.01, 0.1, 1.0),
        )  # fmt: skip

    config: Config

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._fisher = no_parameters(run.model.dim, run.training.device)
        self._penalty: QuadraticPenalty | None = None

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Old rows are held where they are."""
        self._penalty = penalty_at(model.tables, self._fisher, self.config.regularization_weight)

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """α Σ F (θ - θ*)² on the touched rows."""
        return (
            self._penalty.add_gradient(model.tables, gradient, model.backend)
            if self._penalty
            else 0
        )

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Add the squared gradients of each new fact."""
        fisher = self._fisher.grown_to(model.tables.map(torch.zeros_like))
        run = self.run
        for batch in batches(
            with_inverses(snapshot.train),
            run.training.batch_size,
            model.negatives,
            snapshot.num_entities,
            stream(run.training.seed, INFORM, snapshot.index),
            run.training.negatives_shared_by,
        ):
            model.loss.add_squares(model.tables, batch, fisher)
        self._fisher = fisher

    def state(self) -> State:
        """F for every row."""
        return self._fisher.named("fisher")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self._fisher = Parameters.from_named(state, "fisher")
