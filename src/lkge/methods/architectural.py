"""Architectural methods, which keep old and new parameters apart: PNN and CWR."""

import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Snapshot
from lkge.methods.base import Method, register
from lkge.methods.counts import CountingMethod, fact_counts, padded
from lkge.models.model import Model
from lkge.models.parameters import Gradient, no_parameters


@register
class Pnn(Method):
    """PNN: freeze what was learned, train new rows only (Rusu et al., 2016; Daruna et al., 2021).

    The gradient of every old row is dropped, so that no old row changes by a bit.
    """

    name = "pnn"
    supports_partial_updates = True

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._frozen = (0, 0)

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Rows that are there already are frozen from now on."""
        self._frozen = (len(model.tables.entity), len(model.tables.relation))
        super().grow(model, snapshot)

    def adjust(self, model: Model, gradient: Gradient) -> None:
        """Clear the gradient of the frozen rows."""
        for part, frozen in zip(gradient, self._frozen, strict=True):
            rows = part.rows()
            part.clear(rows[rows < frozen])


@register
class Cwr(CountingMethod):
    """CWR: learn each snapshot apart, merge it into a consolidated model (Lomonaco, Maltoni, 2017).

        θ = (p·θ_consolidated + n·θ_temporary) / (p + n),

    p and n the numbers of facts that a row had before and has in this snapshot. A new row is
    copied; a row without new facts stays as it is. The consolidated model answers; while a snapshot
    is learned, the temporary one is validated.
    """

    name = "cwr"
    supports_partial_updates = True

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._consolidated = no_parameters(run.model.dim, self.device)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Put the consolidated model aside and start a temporary one."""
        self._consolidated = model.tables
        model.restart(snapshot)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Merge."""
        new = fact_counts(snapshot.train, snapshot)
        past = padded(self._past, new)
        share = new.map(lambda counts, before: counts / (counts + before).clamp(min=1), past)
        model.tables = self._consolidated.map(merged, model.tables, share.to(self.device))
        self._consolidated = no_parameters(self.run.model.dim, self.device)
        super().end(model, snapshot)


def merged(consolidated: Tensor, temporary: Tensor, share: Tensor) -> Tensor:
    """(1 - share)·consolidated + share·temporary; shapes (n, d), (n, d), (n,)."""
    return torch.lerp(consolidated, temporary, share[:, None])
