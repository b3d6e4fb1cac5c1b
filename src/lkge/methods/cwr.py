"""CWR: learn each snapshot apart, merge it into a consolidated model (Lomonaco and Maltoni, 2017).

    θ = (p·θ_consolidated + n·θ_temporary) / (p + n),

p and n the numbers of facts that a row had before and has in this snapshot. A new row is copied; a
row without new facts stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot
from lkge.methods.base import Method, State, register
from lkge.methods.counts import fact_counts, no_counts, padded, without
from lkge.models.model import Model
from lkge.models.parameters import Parameters, no_parameters


@register
class Cwr(Method):
    """The consolidated model answers; while a snapshot is learned, a temporary one is validated."""

    name: ClassVar[str] = "cwr"
    summary: ClassVar[str] = "learn a temporary model, average it into a consolidated one"
    keeps: ClassVar[str] = "one count a row"
    supports_partial_updates = True

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._past = no_counts()
        self._consolidated = no_parameters(run.model.dim, run.training.device)

    def retract(self, facts: Facts) -> None:
        """They no longer count."""
        self._past = without(self._past, facts)

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
        self._past = past.map(torch.add, new)
        self._consolidated = no_parameters(self.run.model.dim, self.run.training.device)

    def state(self) -> State:
        """The counts |N(x)| over all snapshots so far."""
        return self._past.named("facts")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self._past = Parameters.from_named(state, "facts")


def merged(consolidated: Tensor, temporary: Tensor, share: Tensor) -> Tensor:
    """(1 - share)·consolidated + share·temporary; shapes (n, d), (n, d), (n,)."""
    return torch.lerp(consolidated, temporary, share[:, None])
