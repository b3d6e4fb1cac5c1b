"""CWR: learn each snapshot apart, merge it into a consolidated model (Lomonaco and Maltoni, 2017).

    θ = (p·θ_consolidated + n·θ_temporary) / (p + n),

p and n the numbers of facts that a row had before and has in this snapshot. A new row is copied; a
row without new facts stays as it is.
"""

import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Snapshot
from lkge.methods.base import register
from lkge.methods.counts import CountingMethod, fact_counts, padded
from lkge.models.model import Model
from lkge.models.parameters import no_parameters


@register
class Cwr(CountingMethod):
    """The consolidated model answers; while a snapshot is learned, a temporary one is validated."""

    name = "cwr"
    summary = "learn a temporary model, average it into a consolidated one"
    supports_partial_updates = True

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._consolidated = no_parameters(run.model.dim, run.training.device)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Put the consolidated model aside and start a temporary one."""
        self._consolidated = model.tables
        model.restart(snapshot)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Merge."""
        new = fact_counts(snapshot.train, snapshot)
        past = padded(self._past, new)
        share = new.map(lambda counts, before: counts / (counts + before).clamp(min=1), past)
        share = share.to(self.run.training.device)
        model.tables = self._consolidated.map(merged, model.tables, share)
        self._consolidated = no_parameters(self.run.model.dim, self.run.training.device)
        super().end(model, snapshot)


def merged(consolidated: Tensor, temporary: Tensor, share: Tensor) -> Tensor:
    """(1 - share)·consolidated + share·temporary; shapes (n, d), (n, d), (n,)."""
    return torch.lerp(consolidated, temporary, share[:, None])
