"""What rehearsing methods share: a memory that is refreshed when a snapshot is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot
from lkge.methods.base import Method, State
from lkge.methods.parts.memory import Memory
from lkge.models.model import REMEMBER, Model, stream


class Rehearsal(Method):
    """Keeps `memory` facts; each snapshot replaces half of them with its own."""

    keeps: ClassVar[str] = "up to 5,000 training facts (--memory)"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self.memory = Memory()

    def retract(self, facts: Facts) -> None:
        """They are no longer remembered."""
        self.memory = self.memory.without(facts)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Remember some of what is now old."""
        generator = stream(self.run.training.seed, REMEMBER, snapshot.index)
        self.memory = self.memory.refreshed(snapshot, self.config.memory_size, generator)

    def state(self) -> State:
        """The memory."""
        return self.memory.named()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self.memory = Memory.from_named(state)
