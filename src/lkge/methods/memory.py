"""A memory of old facts, and what the methods that replay it share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.config import MethodConfig, RunConfig, setting
from lkge.data.snapshots import Facts, Snapshot, among, no_facts
from lkge.methods.base import Method, State
from lkge.models.model import REMEMBER, Model, stream


@dataclass(frozen=True)
class Memory:
    """Facts (k, 3) without inverses, and the snapshot that each came from (k,)."""

    facts: Facts = field(default_factory=no_facts)
    since: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.facts)

    def refreshed(self, snapshot: Snapshot, size: int, generator: np.random.Generator) -> Memory:
        """Room for `size` facts: new ones, drawn at random, fill what is free, and replace as many
        of the others as it takes to have half of the room."""
        taken = min(len(snapshot.train), max(size - len(self), size // 2))
        kept = np.sort(generator.permutation(len(self))[: size - taken])
        drawn = np.sort(generator.permutation(len(snapshot.train))[:taken])
        return Memory(
            np.concatenate([self.facts[kept], snapshot.train[drawn]]),
            np.append(self.since[kept], np.full(taken, snapshot.index, dtype=np.int32)),
        )

    def without(self, facts: Facts) -> Memory:
        """All that is remembered but these facts."""
        kept = ~among(self.facts, facts)
        return Memory(self.facts[kept], self.since[kept])

    def parts(self) -> list[Facts]:
        """The facts of each past snapshot that is still remembered, oldest first."""
        return [self.facts[self.since == index] for index in np.unique(self.since)]

    def named(self) -> dict[str, Tensor]:
        """For a method's state; `from_named` is the inverse."""
        return {"facts": torch.from_numpy(self.facts), "since": torch.from_numpy(self.since)}

    @classmethod
    def from_named(cls, tensors: Mapping[str, Tensor]) -> Memory:
        """The memory that `named` stored."""
        return cls(tensors["facts"].numpy(), tensors["since"].numpy())


class MemoryMethod(Method):
    """Keeps `memory_size` facts; each snapshot replaces half of them with its own."""

    keeps = "up to `memory_size` training facts"

    class Config(MethodConfig):
        """The settings of a method with a memory of facts."""

        memory_size: int = setting(5000, "Old facts that are kept.", ge=0)

    config: Config

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self.memory = Memory()

    def retract(self, facts: Facts) -> None:
        """Remove them from the memory."""
        self.memory = self.memory.without(facts)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Keep some of the facts that are now old."""
        generator = stream(self.run.training.seed, REMEMBER, snapshot.index)
        self.memory = self.memory.refreshed(snapshot, self.config.memory_size, generator)

    def state(self) -> State:
        """The memory."""
        return self.memory.named()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self.memory = Memory.from_named(state)
