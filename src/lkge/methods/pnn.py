"""PNN: freeze what was learned, train new rows only (Rusu et al., 2016; Daruna et al., 2021)."""

from lkge.config import RunConfig
from lkge.data.snapshots import Snapshot
from lkge.methods.base import Method, register
from lkge.models.model import Model
from lkge.models.parameters import Gradient


@register
class Pnn(Method):
    """The gradient of every old row is dropped, so that no old row changes by a bit."""

    name = "pnn"
    summary = "freeze what is learned, train new rows only"
    supports_partial_updates = True

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._frozen = (0, 0)

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Rows that are there already are frozen from now on."""
        self._frozen = (len(model.tables.entity), len(model.tables.relation))
        super().grow(model, snapshot)

    def adjust(self, model: Model, gradient: Gradient) -> None:
        """Untouch the frozen rows."""
        for part, frozen in zip(gradient, self._frozen, strict=True):
            rows = part.rows()
            part.clear(rows[rows < frozen])
