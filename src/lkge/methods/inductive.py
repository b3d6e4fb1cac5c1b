"""MEAN, and what it shares with LAN: they learn from the first snapshot how an entity follows from
its neighbours, and encode later entities from their facts without learning any more.

An entity's neighbourhood is drawn where the entity first appears and then stays. A later entity is
encoded from its facts whose relation was trained and whose other end has a vector; one that is
reached through other new entities alone follows in a second pass, a third, and so on. Its vector
becomes its row, so that it is a neighbour like any other.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lkge.config import RunConfig
from lkge.data.batches import Batch
from lkge.data.snapshots import Facts, Snapshot, no_facts, with_inverses
from lkge.methods.base import Method, State, register
from lkge.methods.inductive_settings import InductiveConfig
from lkge.methods.neighbours import Neighbourhoods
from lkge.methods.profiles import NEAR_FACTS
from lkge.models.encoders import Moments, project, segment_means, standardise
from lkge.models.losses import Loss
from lkge.models.model import ENCODE, NEIGHBOURS, Model, xavier_parameters
from lkge.models.parameters import Gradient, Parameters, RowGradient, host, index
from lkge.models.scores import Score

Encode = Callable[[Parameters, Tensor, Tensor], Tensor]
"""Rows (k, d) of entities (k,) as each looks to a query relation (k,), from tables."""

Ints = NDArray[np.integer]
TRANSITION, SCALE, SHIFT = "transition", "scale", "shift"


class Inductive(Method, ABC):
    """Trains on D_1; afterwards every old row stays, bit for bit.

    A relation that D_1 does not have leads from every entity to itself: the score's identity. An
    entity without a usable fact keeps its random row.
    """

    keeps = NEAR_FACTS

    Config = InductiveConfig
    config: InductiveConfig
    sees_query: ClassVar[bool]
    """Whether an entity looks different to each query relation."""
    relation_wise: ClassVar[tuple[str, ...]] = (TRANSITION,)
    """Those of its own tables that have a row for each relation."""

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self.near = Neighbourhoods.none(device=self.device)
        self.trained = torch.zeros(0, dtype=torch.uint8)

    @abstractmethod
    def drawn(self, num_relations: int, generator: np.random.Generator) -> dict[str, Tensor]:
        """Random tables of its own, before the first snapshot."""

    @abstractmethod
    def encode(self, score: Score, tables: Parameters, entities: Tensor, queries: Tensor) -> Tensor:
        """Rows (k, d) of entities (k,) as each looks to its query relation (k,)."""

    @abstractmethod
    def vectors(self, score: Score, tables: Parameters, entities: Tensor) -> Tensor:
        """Rows (k, d) of new entities (k,), with which they are neighbours of others."""

    def retract(self, facts: Facts) -> None:
        """They are no longer looked at."""
        self.near = self.near.without(with_inverses(facts))

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Draw the neighbourhoods of what is new; after the first snapshot, encode it."""
        first = len(model.tables.entity)
        super().grow(model, snapshot)
        edges = with_inverses(snapshot.train)
        if snapshot.index == 0:
            self._begin_with(model, snapshot, edges)
        self._widen(model, snapshot.num_relations)
        if snapshot.index > 0:
            self._encode_new(model, snapshot, edges, first)

    def facts(self, snapshot: Snapshot) -> Facts:
        """D_1, and nothing afterwards."""
        return snapshot.train if snapshot.index == 0 else no_facts()

    def loss(self, model: Model) -> Loss:
        """The model's loss, on encoded entities."""
        return EncodedLoss(model.loss, partial(self.encode, model.score), self.sees_query)

    def negatives(self, model: Model) -> int:
        """Some, whatever the loss: not all entities can be encoded for each batch."""
        return self.run.training.negatives

    def note(self) -> str:
        """How many relations were never trained, and how many entities never encoded."""
        untrained, bare = (self.trained == 0).view(-1, 2)[:, 0], self.near.counts == 0
        lacks = {"relations were never trained": untrained, "entities could not be encoded": bare}
        return "; ".join(
            f"{int(rows.sum())} of {len(rows)} {what}" for what, rows in lacks.items() if rows.any()
        )

    def state(self) -> State:
        """Neighbourhoods, and which relations D_1 has."""
        return {**self.near.named(), "trained": self.trained}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.near = Neighbourhoods.from_named(state).to(self.device)
        self.trained = state["trained"]

    def _begin_with(self, model: Model, snapshot: Snapshot, edges: Facts) -> None:
        """Neighbourhoods from D_1, and tables to learn."""
        facts = np.bincount(edges[:, 1], minlength=2 * snapshot.num_relations)
        self.trained = torch.from_numpy(facts > 0).byte()
        untrained = (self.trained == 0).to(self.device)
        model.tables.relation[untrained] = self._identity(model)
        self.near = self._sampled(edges, snapshot, 0)
        drawn = self.drawn(snapshot.num_relations, self.stream(ENCODE))
        model.tables.extra = {name: t.to(self.device) for name, t in drawn.items()}

    def _widen(self, model: Model, num_relations: int) -> None:
        """Relations that come after the first snapshot: identities, and zero rows of its own."""
        size = 2 * num_relations
        model.tables.relation[len(self.trained) :] = self._identity(model)
        self.trained = grown(self.trained, size)
        model.tables.extra = {
            name: grown(table, size) if name in self.relation_wise else table
            for name, table in model.tables.extra.items()
        }

    def _identity(self, model: Model) -> Tensor:
        return model.score.identity(self.run.model.dim).to(self.device)

    def _encode_new(self, model: Model, snapshot: Snapshot, edges: Facts, first: int) -> None:
        """Pass by pass: entities from `first` on by their facts with what is encoded by then."""
        self.near = self.near.joined(Neighbourhoods.none(snapshot.num_entities, self.device))
        edges = edges[(edges[:, 0] >= first) & host(self.trained.bool())[edges[:, 1]]]
        for turn in itertools.count():
            encoded = host(self.near.counts > 0)
            usable = edges[~encoded[edges[:, 0]] & encoded[edges[:, 2]]]
            if not len(usable):
                break
            self.near = self.near.joined(self._sampled(usable, snapshot, turn))
            new = index(np.unique(usable[:, 0]), self.device)
            with torch.no_grad():
                model.tables.entity[new] = self.vectors(model.score, model.tables, new)

    def _sampled(self, edges: Facts, snapshot: Snapshot, turn: int) -> Neighbourhoods:
        entities, limit = snapshot.num_entities, self.config.max_neighbours
        generator = self.stream(NEIGHBOURS, snapshot.index, turn)
        return Neighbourhoods.sampled(edges, entities, limit, generator).to(self.device)


@register
class Mean(Inductive):
    """MEAN: an entity is the mean of what its neighbours say (Hamaguchi et al., 2017).

        e = mean over its neighbours (r, o) of ReLU(BN(x_o - (w_r·x_o) w_r)),    ‖w_r‖ = 1

    While D_1 is learned, batch normalisation takes its moments from the distinct neighbours in use;
    those of all of D_1, at the end, hold for all that comes later.
    """

    name = "mean"
    sees_query = False

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._moments: Moments | None = None

    def drawn(self, num_relations: int, generator: np.random.Generator) -> dict[str, Tensor]:
        """w_r for each relation, and a batch normalisation that changes nothing yet."""
        dim = self.run.model.dim
        return {
            TRANSITION: xavier(2 * num_relations, dim, generator),
            SCALE: torch.ones(1, dim),
            SHIFT: torch.zeros(1, dim),
        }

    def encode(self, score: Score, tables: Parameters, entities: Tensor, queries: Tensor) -> Tensor:
        """See `Inductive`; every query sees the same."""
        near = self.near.of(entities)
        moved = transitions(score, tables, near)
        scale, shift = tables.extra[SCALE][0], tables.extra[SHIFT][0]
        said = standardise(moved, self._moments, scale, shift).relu()
        rows = segment_means(said, near.pairs.places, near.starts)
        return or_own(rows, near.counts, tables.entity, entities)

    def vectors(self, score: Score, tables: Parameters, entities: Tensor) -> Tensor:
        return self.encode(score, tables, entities, torch.zeros_like(entities))

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Keep the moments of D_1."""
        if snapshot.index == 0:
            self._moments = Moments.of(transitions(model.score, model.tables, self.near))

    def inference_parameters(self, model: Model) -> Parameters:
        """Every entity, encoded."""
        everything = torch.arange(len(model.tables.entity), device=self.device)
        with torch.no_grad():
            rows = self.vectors(model.score, model.tables, everything)
        return Parameters(rows, model.tables.relation)

    def state(self) -> State:
        """With the moments, once they are known."""
        known = {} if self._moments is None else {"moments": torch.stack(self._moments)}
        return super().state() | known

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        super().load_state(state)
        if "moments" in state:
            self._moments = Moments(*state["moments"].to(self.device))


@dataclass(frozen=True)
class EncodedLoss:
    """Another objective on encoded rows, differentiated through the encoder by torch."""

    objective: Loss
    encode: Encode
    sees_query: bool

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """See `Loss`. What stands as subject of r is encoded for the query r, what stands as object
        for r⁻¹. An encoder that does not see the query has query 0 everywhere."""
        relations = batch.facts[:, 1] if self.sees_query else np.zeros_like(batch.facts[:, 1])
        inverses = relations ^ 1 if self.sees_query else relations
        pairs, seen = renumbered(batch, relations, inverses)
        entities, queries = index(pairs, tables.device).T
        variables = tables.map(lambda table: table.detach().requires_grad_())
        rows = self.encode(variables, entities, queries)
        encoded = Parameters(rows.detach(), tables.relation)
        on_rows = RowGradient.like(encoded.entity)
        loss = self.objective.add_gradient(encoded, seen, Gradient(on_rows, gradient.relation))
        names = sorted(tables.extra)
        leaves = [variables.entity, *(variables.extra[name] for name in names)]
        parts = [gradient.entity, *(gradient.extra[name] for name in names)]
        flows = torch.autograd.grad(rows, leaves, on_rows.values)
        for part, flow in zip(parts, flows, strict=True):
            used = flow.any(dim=1).nonzero().squeeze(1)
            part.add(used, flow[used])
        return loss


def transitions(score: Score, tables: Parameters, near: Neighbourhoods) -> Tensor:
    """x̂_o - (ŵ_r·x̂_o) ŵ_r for each distinct neighbour (r, o), (p, d). ŵ is w / ‖w‖₂; x̂ is prepared
    for the score, so that learned and encoded rows have one scale."""
    rows = functional.embedding(near.pairs.others, score.prepare_entities(tables.entity))
    directions = functional.normalize(tables.extra[TRANSITION], dim=-1)
    return project(rows, functional.embedding(near.pairs.relations, directions))


def or_own(rows: Tensor, counts: Tensor, own: Tensor, entities: Tensor) -> Tensor:
    """Encoded rows (k, d) of entities (k,); one whose count of neighbours is zero is its own row,
    which does not learn by it."""
    bare = (counts == 0).nonzero().squeeze(1)
    return rows.index_copy(0, bare, own.detach()[entities[bare]]) if len(bare) else rows


def grown(table: Tensor, size: int) -> Tensor:
    """The table with zero rows up to the given size."""
    return torch.cat([table, table.new_zeros(size - len(table), *table.shape[1:])])


def xavier(rows: int, dim: int, generator: np.random.Generator) -> Tensor:
    """A table (rows, dim) by the rule of `xavier_parameters`."""
    return xavier_parameters(rows, 0, dim, generator).entity


def renumbered(batch: Batch, of_subjects: Ints, of_objects: Ints) -> tuple[Ints, Batch]:
    """The distinct (entity, query) of a batch, (k, 2), in ascending order, and the batch by their
    numbers. A fact's subject, and what is put in its place, has the query `of_subjects` (B,), its
    object `of_objects` (B,)."""
    subjects, _, objects = batch.facts.astype(np.int64).T
    forward, backward = of_subjects.astype(np.int64), of_objects.astype(np.int64)
    sides = np.where(batch.corrupt_object, backward[:, None], forward[:, None])
    width = int(max(forward.max(), backward.max())) + 1
    corrupted = batch.corruptions.astype(np.int64) * width + sides
    keys = [subjects * width + forward, objects * width + backward, corrupted.ravel()]
    distinct, places = np.unique(np.concatenate(keys), return_inverse=True)
    heads, tails, corruptions = np.split(places.astype(np.int32), [len(batch), 2 * len(batch)])
    facts = np.stack([heads, batch.facts[:, 1], tails], axis=1)
    seen = Batch(facts, corruptions.reshape(batch.corruptions.shape), batch.corrupt_object)
    return np.stack([distinct // width, distinct % width], axis=1), seen
