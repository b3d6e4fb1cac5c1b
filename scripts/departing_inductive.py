"""MEAN and LAN as the published code may have them: a projection that sums over a wrong axis.

x̂ - s ∘ ŵ in place of x̂ - (x̂·ŵ) ŵ, where s sums x̂ ∘ ŵ coordinate by coordinate: over the neighbours
of an entity, or over those of a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

from lkge.config import RunConfig
from lkge.data.snapshots import Snapshot
from lkge.methods import register
from lkge.methods.inductive import SCALE, SHIFT, TRANSITION, Inductive, Mean, or_own
from lkge.methods.lan import (
    FROM_NEIGHBOUR,
    FROM_QUERY,
    QUERY,
    VECTOR,
    Attention,
    Lan,
    Logic,
)
from lkge.methods.neighbours import Neighbourhoods, Pairs
from lkge.models.encoders import Moments, segment_means, standardise
from lkge.models.model import Model
from lkge.models.parameters import Parameters
from lkge.models.scores import Score


class Moved(NamedTuple):
    """Neighbourhoods, and what each of their distinct neighbours is moved to, (p, d)."""

    near: Neighbourhoods
    rows: Tensor


class Apart(Neighbourhoods):
    """Neighbourhoods that share no pair: what a neighbour is moved to depends on whose it is."""

    @classmethod
    def of_each(cls, near: Neighbourhoods) -> Self:
        """The same neighbours."""
        return cls(near.starts, near.relations, near.others)

    @cached_property
    def pairs(self) -> Pairs:
        """Every neighbour is a pair of its own."""
        places = torch.arange(len(self.others), device=self.others.device)
        return Pairs(self.relations, self.others, places)


class Projects(Inductive, ABC):
    """By a projection of its own."""

    @abstractmethod
    def moved(self, score: Score, tables: Parameters, near: Neighbourhoods) -> Moved:
        """In place of `transitions`."""


class OverNeighbours(Projects, ABC):
    """s = Σ x̂ ∘ ŵ over the neighbours of the entity."""

    def moved(self, score: Score, tables: Parameters, near: Neighbourhoods) -> Moved:
        """See `Projects`."""
        near = Apart.of_each(near)
        x, w = _factors(score, tables, near)
        sums = functional.embedding_bag(
            near.pairs.places, x * w, near.starts, mode="sum", include_last_offset=True
        )
        return Moved(near, x - functional.embedding(near.subjects, sums) * w)


def _sums(near: Neighbourhoods, products: Tensor) -> Tensor:
    """Those (p, d) of distinct neighbours, each as often as it is there, (d,)."""
    times = torch.bincount(near.pairs.places, minlength=len(products))
    return times.to(products.dtype) @ products


def _factors(score: Score, tables: Parameters, near: Neighbourhoods) -> tuple[Tensor, Tensor]:
    """x̂ and ŵ of each distinct neighbour, (p, d) both, as in `transitions`."""
    directions = functional.normalize(tables.extra[TRANSITION], dim=-1)
    x = functional.embedding(near.pairs.others, score.prepare_entities(tables.entity))
    return x, functional.embedding(near.pairs.relations, directions)


class ProjectingMean(Projects, Mean, ABC):
    """Batch normalisation takes its moments from distinct neighbours, as MEAN's does."""

    def encode(self, score: Score, tables: Parameters, entities: Tensor, queries: Tensor) -> Tensor:
        """See `Mean`."""
        near, moved = self.moved(score, tables, self.near.of(entities))
        scale, shift = tables.extra[SCALE][0], tables.extra[SHIFT][0]
        said = standardise(moved, self._moments, scale, shift).relu()
        rows = segment_means(said, near.pairs.places, near.starts)
        return or_own(rows, near.counts, tables.entity, entities)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """See `Mean`."""
        if snapshot.index == 0:
            self._moments = Moments.of(self.moved(model.score, model.tables, self.near).rows)


@register
class LanOverNeighbours(OverNeighbours, Lan):
    """LAN whose projection sums over neighbours instead of coordinates."""

    name: ClassVar[str] = "lan-over-neighbours"

    def vectors(self, score: Score, tables: Parameters, entities: Tensor) -> Tensor:
        """See `Lan`."""
        near, moved = self.moved(score, tables, self.near.of(entities))
        return segment_means(moved, near.pairs.places, near.starts)

    def _attention(
        self, score: Score, tables: Parameters, near: Neighbourhoods, logic: Logic
    ) -> Attention:
        """See `Lan`. The moved neighbours are all that attention needs to know."""
        own = tables.extra
        near, moved = self.moved(score, tables, near)
        keys, queries = moved @ own[FROM_NEIGHBOUR].T, own[QUERY] @ own[FROM_QUERY].T
        return Attention(near, logic, moved, keys, queries, own[VECTOR][0].clone())


@register
class MeanOverNeighbours(OverNeighbours, ProjectingMean):
    """MEAN whose projection sums over neighbours instead of coordinates."""

    name: ClassVar[str] = "mean-over-neighbours"


@register
class MeanOverBatch(ProjectingMean):
    """MEAN whose projection sums over all neighbours at hand: those of a batch, of D_1 when it has
    been learned, and afterwards of the entities that are encoded together. What has been encoded
    stays."""

    name: ClassVar[str] = "mean-over-batch"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._first: Tensor | None = None

    def moved(self, score: Score, tables: Parameters, near: Neighbourhoods) -> Moved:
        """See `Projects`."""
        x, w = _factors(score, tables, near)
        return Moved(near, x - _sums(near, x * w) * w)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """See `Mean`."""
        super().end(model, snapshot)
        if snapshot.index == 0:
            self._first = self.inference_parameters(model).entity

    def inference_parameters(self, model: Model) -> Parameters:
        """See `Mean`; the rows of later entities are what they were encoded as."""
        if self._first is None:
            return super().inference_parameters(model)
        later = model.tables.entity[len(self._first) :]
        return Parameters(torch.cat([self._first, later]), model.tables.relation)


@register
class MeanOverFirst(ProjectingMean):
    """MEAN whose projection sums over the neighbours of a batch, and when D_1 has been learned over
    those of D_1 for good."""

    name: ClassVar[str] = "mean-over-first"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._kept: Tensor | None = None

    def moved(self, score: Score, tables: Parameters, near: Neighbourhoods) -> Moved:
        """See `Projects`."""
        x, w = _factors(score, tables, near)
        sums = _sums(near, x * w) if self._kept is None else self._kept
        return Moved(near, x - sums * w)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Keep the sums of D_1; see `Mean`."""
        if snapshot.index == 0:
            x, w = _factors(model.score, model.tables, self.near)
            self._kept = _sums(self.near, x * w)
        super().end(model, snapshot)
