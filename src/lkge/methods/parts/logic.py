"""How strongly one relation implies another, counted: the logic part of LAN's attention."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from lkge.data.snapshots import Facts
from lkge.methods.parts.neighbours import Neighbourhoods
from lkge.models.encoders import ranges, segment_of


class Meetings(NamedTuple):
    """The distinct (entity, relation) of some facts: the relation of each, (k,); the place of
    each fact among them; and which meet in one entity, as two places, (t,) both."""

    relations: Tensor
    places: Tensor
    one: Tensor
    another: Tensor

    @classmethod
    def of(cls, subjects: Tensor, relations: Tensor, size: int) -> Meetings:
        """From the subject and the relation of each fact; relations are below `size`."""
        keys, places = torch.unique(subjects * size + relations, return_inverse=True)
        entities = keys // size
        starts = functional.pad(torch.bincount(entities).cumsum(0), (1, 0))
        another, begins = ranges(starts, entities)
        return cls(keys % size, places, segment_of(begins), another)


def implications(edges: Facts, size: int) -> Tensor:
    """P(p ⇒ q), the share of entities with p that have q too, (size, size); zero where p has no
    fact."""
    subjects, relations, _ = torch.from_numpy(edges).long().T
    met = Meetings.of(subjects, relations, size)
    keys = met.relations[met.one] * size + met.relations[met.another]
    together = torch.bincount(keys, minlength=size * size).view(size, size).float()
    return together / together.diagonal().clamp(min=1)[:, None]


def discounts(near: Neighbourhoods, implies: Tensor, least: float) -> Tensor:
    """For each neighbour (p, o) the largest P(u ⇒ p) over the entity's other relations u, (items,):
    what another neighbour says already counts for less. At least `least`: relations of a
    new entity may never have met before."""
    met = Meetings.of(near.subjects, near.relations, len(implies))
    strengths = implies[met.relations[met.another], met.relations[met.one]]
    strengths = strengths.masked_fill(met.one == met.another, 0)
    largest = implies.new_full((len(met.relations),), least)
    return largest.scatter_reduce(0, met.one, strengths, "amax")[met.places]
