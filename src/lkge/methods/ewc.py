"""EWC: hold each coordinate by its Fisher information (Kirkpatrick et al., 2017).

    L = L_new + α Σ F (θ - θ*)²,   F = Σ_{j < i} Σ_{x ∈ D_j ∪ D_j⁻¹} (∂ℓ(x)/∂θ)²,

ℓ(x) the loss of one fact at the end of its snapshot, θ* the tables of the last one.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.batches import batches
from lkge.data.snapshots import Snapshot, with_inverses
from lkge.methods.base import State, register
from lkge.methods.regularization import RegularizedMethod
from lkge.models.model import INFORM, Model, stream
from lkge.models.parameters import Parameters, no_parameters


@register
class Ewc(RegularizedMethod):
    """Fisher information is accumulated over snapshots; only rows that were learned are held."""

    name = "ewc"
    summary = "hold each coordinate by its Fisher information"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._fisher = no_parameters(run.model.dim, run.training.device)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Old rows are held where they are."""
        self.hold(model.tables, self._fisher)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Add the squared gradients of each new fact."""
        self._fisher = self._fisher.grown_to(model.tables.map(torch.zeros_like))
        training = self.run.training
        for batch in batches(
            with_inverses(snapshot.train),
            training.batch_size,
            model.negatives,
            snapshot.num_entities,
            stream(training.seed, INFORM, snapshot.index),
            training.negatives_shared_by,
        ):
            model.loss.add_squares(model.tables, batch, self._fisher)

    def state(self) -> State:
        """F for every row."""
        return self._fisher.named("fisher")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self._fisher = Parameters.from_named(state, "fisher")
