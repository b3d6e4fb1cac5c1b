"""The facts around each entity, at most so many, drawn once and kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lkge.data.snapshots import Facts, among
from lkge.models.encoders import ranges, segment_of
from lkge.models.parameters import host, placed


class Pairs(NamedTuple):
    """The distinct (r, o) among all neighbours, (p,) both, and the pair of each neighbour."""

    relations: Tensor
    others: Tensor
    places: Tensor


@dataclass(frozen=True)
class Neighbourhoods:
    """The neighbours (r, o) of entity e, from facts (e, r, o), are the items starts[e] to
    starts[e + 1] of `relations` and `others`. Shapes: starts (n + 1,), the others (items,)."""

    starts: Tensor
    relations: Tensor
    others: Tensor

    @classmethod
    def none(cls, num_entities: int = 0, device: str = "cpu") -> Neighbourhoods:
        """Entities without any neighbour."""
        starts = torch.zeros(num_entities + 1, dtype=torch.int64, device=device)
        return cls(starts, starts[:0], starts[:0])

    @classmethod
    def sampled(
        cls, edges: Facts, num_entities: int, limit: int, generator: np.random.Generator
    ) -> Neighbourhoods:
        """At most `limit` of each entity's facts as subject, drawn without replacement."""
        shuffled = edges[generator.permutation(len(edges))]
        ordered = shuffled[np.argsort(shuffled[:, 0], kind="stable")]
        counts = np.bincount(ordered[:, 0], minlength=num_entities)
        rank = np.arange(len(ordered)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls._of_ordered(torch.from_numpy(ordered[rank < limit]).long(), num_entities)

    @classmethod
    def _of_ordered(cls, edges: Tensor, num_entities: int) -> Neighbourhoods:
        """From facts (k, 3) whose subjects are in ascending order."""
        subjects, relations, others = edges.T.contiguous()
        counts = torch.bincount(subjects, minlength=num_entities)
        return cls(torch.nn.functional.pad(counts.cumsum(0), (1, 0)), relations, others)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def counts(self) -> Tensor:
        """How many neighbours each entity has, (n,)."""
        return self.starts.diff()

    @cached_property
    def subjects(self) -> Tensor:
        """Whose neighbour each item is, (items,)."""
        return segment_of(self.starts)

    @property
    def edges(self) -> Tensor:
        """The facts (e, r, o) that the neighbours come from, (items, 3)."""
        return torch.stack([self.subjects, self.relations, self.others], dim=1)

    @cached_property
    def pairs(self) -> Pairs:
        """The distinct neighbours: what is worked on once for all entities that share it."""
        width = int(self.others.max()) + 1 if len(self.others) else 1
        keys, places = torch.unique(self.relations * width + self.others, return_inverse=True)
        return Pairs(keys // width, keys % width, places)

    def of(self, entities: Tensor) -> Neighbourhoods:
        """The neighbourhoods of the given entities (k,), renumbered 0 to k - 1."""
        items, starts = ranges(self.starts, entities)
        return Neighbourhoods(starts, self.relations[items], self.others[items])

    def joined(self, more: Neighbourhoods) -> Neighbourhoods:
        """These neighbours, then those of `more`, which knows at least as many entities."""
        edges = torch.cat([self.edges, more.edges])
        return self._of_ordered(edges[torch.argsort(edges[:, 0], stable=True)], len(more))

    def without(self, edges: Facts) -> Neighbourhoods:
        """All neighbours but those that come from these facts, inverse facts included."""
        kept = ~among(host(self.edges.int()), edges)
        return self._of_ordered(self.edges[placed(kept, self.starts.device)], len(self))

    def to(self, device: str) -> Neighbourhoods:
        """The same on the given device."""
        parts = (self.starts, self.relations, self.others)
        return Neighbourhoods(*(part.to(device) for part in parts))

    def named(self) -> dict[str, Tensor]:
        """For a file of named tensors, in 32 bits; `from_named` is the inverse."""
        parts = {"starts": self.starts, "relations": self.relations, "others": self.others}
        return {name: part.int().cpu() for name, part in parts.items()}

    @classmethod
    def from_named(cls, tensors: Mapping[str, Tensor]) -> Neighbourhoods:
        """What `named` stored."""
        return cls(*(tensors[name].long() for name in ("starts", "relations", "others")))
