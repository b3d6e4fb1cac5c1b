"""Several losses as one."""

from __future__ import annotations

from collections.abc import Sequence

from lkge.data.batches import Batch
from lkge.models.objectives.base import FactwiseObjective, Objective
from lkge.models.tables import Gradient, Tables


class Total:
    """The loss on facts, and further terms."""

    def __init__(self, on_facts: FactwiseObjective, terms: Sequence[Objective]) -> None:
        self.on_facts = on_facts
        self.terms = tuple(terms)

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        return sum(
            part.add_gradient(tables, batch, gradient) for part in (self.on_facts, *self.terms)
        )

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`. Only the loss on facts says what is known of them."""
        self.on_facts.add_squares(tables, batch, squares)
