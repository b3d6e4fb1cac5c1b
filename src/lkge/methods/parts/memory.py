"""A few old facts, kept to be learned again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.data.snapshots import Facts, Snapshot, among, no_facts


def _no_snapshots() -> NDArray[np.int32]:
    return np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class Memory:
    """Facts (k, 3) without inverses, and the snapshot that each came from (k,)."""

    facts: Facts = field(default_factory=no_facts)
    since: NDArray[np.int32] = field(default_factory=_no_snapshots)

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
