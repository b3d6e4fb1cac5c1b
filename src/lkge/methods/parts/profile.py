"""Which questions have been answered how often: what is left of old facts, no object among it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.data.known_facts import pack
from lkge.data.snapshots import Facts, with_inverses

Counts = NDArray[np.int32]


def _none(*shape: int) -> NDArray[np.int32]:
    return np.empty(shape, dtype=np.int32)


@dataclass(frozen=True)
class Profile:
    """Questions (p, 2), an entity and a relation each, in order, and how many training facts have
    answered each, (p,). Every fact has answered two, one in each direction."""

    questions: Facts = field(default_factory=lambda: _none(0, 2))
    counts: Counts = field(default_factory=lambda: _none(0))

    def with_facts(self, facts: Facts) -> Profile:
        """The profile of these facts too."""
        return self._changed(facts, 1)

    def without(self, facts: Facts) -> Profile:
        """The profile as if these facts had never been; what it does not know is left aside."""
        return self._changed(facts, -1)

    def _changed(self, facts: Facts, sign: int) -> Profile:
        edges = with_inverses(facts)
        asked = np.concatenate([self.questions, edges[:, :2]])
        change = np.concatenate([self.counts, np.full(len(edges), sign, dtype=np.int32)])
        _, first, places = np.unique(
            pack(asked[:, 0], asked[:, 1]), return_index=True, return_inverse=True
        )
        counts = np.zeros(len(first), dtype=np.int32)
        np.add.at(counts, places, change)
        kept = counts > 0
        return Profile(asked[first][kept], counts[kept])

    def draw(self, size: int, generator: np.random.Generator) -> tuple[Facts, Tensor]:
        """`size` questions as often as they have been answered, one from each `size`-th of them
        all; those drawn, each once (q, 2), and their shares of the draw, (q,)."""
        ends = np.cumsum(self.counts, dtype=np.float64)
        marks = (np.arange(size) + generator.random(size)) * (ends[-1] / size)
        drawn = np.minimum(np.searchsorted(ends, marks, side="right"), len(ends) - 1)
        chosen, times = np.unique(drawn, return_counts=True)
        return self.questions[chosen], torch.from_numpy(times / size).float()

    def named(self) -> dict[str, Tensor]:
        """For a method's state; `from_named` is the inverse."""
        return {
            "profile.questions": torch.from_numpy(self.questions),
            "profile.counts": torch.from_numpy(self.counts),
        }

    @classmethod
    def from_named(cls, tensors: Mapping[str, Tensor]) -> Profile:
        """The profile that `named` stored."""
        return cls(tensors["profile.questions"].numpy(), tensors["profile.counts"].numpy())
