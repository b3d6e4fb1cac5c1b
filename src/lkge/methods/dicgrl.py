"""DiCGRL: vectors in components, and replay of what new facts concern (Kou et al., 2020).

A row (d,) is K components of size d/K; where coordinates are complex, a component is a part of the
real half together with the same part of the imaginary half. Relation r attends to them,
α_r = softmax(a_r), and sees of an entity only its n most attended components, each weighted:
x_r = (α_r[k]·x[k]) for k in top-n(r). Its own vector has the same n components, unweighted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lkge.backends import Backend
from lkge.backends.torch_losses import as_tensors
from lkge.config import RunConfig
from lkge.data.batches import Batch
from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.errors import SettingsError
from lkge.methods.base import register
from lkge.methods.dicgrl_settings import DicgrlConfig
from lkge.methods.memory import MemoryMethod
from lkge.models.losses import Loss, margin_loss
from lkge.models.model import ATTEND, Model
from lkge.models.parameters import Gradient, Parameters, host
from lkge.models.predictor import Predictor, RelationPredictor, TablePredictor
from lkge.models.scores import Score, score_of

ATTENTION = "attention"
"""The table of a_r, (2m, K)."""


@register
class Dicgrl(MemoryMethod):
    """A relation uses the `active_components` of its `components` that it attends to most.

    Only components in use have a gradient; the others of a row stay as they are, bit for bit. With
    a single component there is nothing to attend to, and it is EMR on related facts.
    """

    name = "dicgrl"

    Config = DicgrlConfig
    config: DicgrlConfig

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        components, active = self.config.components, self.config.active_components
        self.division = Division(components, active, score_of(run).reals)
        least = self.division.reals * components
        if run.model.dim % least:
            raise SettingsError(
                f"dicgrl divides dim = {run.model.dim} into components = {components}: "
                f"choose a dim that is a multiple of {least}, or others"
            )
        if active > components:
            raise SettingsError(
                f"active_components = {active} is out of range: there are components = {components}"
            )
        self._masks = np.empty(0, dtype=np.int64)

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Draw the attention of new relations."""
        super().grow(model, snapshot)
        shape = (2 * snapshot.num_relations, self.division.components)
        generator = self.stream(ATTEND, snapshot.index)
        drawn = torch.from_numpy(generator.standard_normal(shape, dtype=np.float32)).to(self.device)
        known = model.tables.extra.get(ATTENTION, drawn[:0])
        model.tables.extra = {ATTENTION: torch.cat([known, drawn[len(known) :]])}

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Fix which components each relation uses, to find related facts."""
        chosen, _ = self.division.top(model.tables.extra[ATTENTION])
        self._masks = host((1 << chosen).sum(-1))

    def facts(self, snapshot: Snapshot) -> Facts:
        """D_i and the remembered facts that it concerns."""
        related = concerned(self.memory.facts, snapshot.train, self._masks, snapshot.num_entities)
        return np.concatenate([snapshot.train, self.memory.facts[related]])

    def loss(self, model: Model) -> Loss:
        """The margin loss on what relations see."""
        if self.division.components == 1:
            return model.loss
        return DividedMargin(self.division, model.score, self.run.training.margin)

    def negatives(self, model: Model) -> int:
        """The margin loss needs some."""
        return model.negatives if self.division.components == 1 else self.run.training.negatives

    def predictor(self, model: Model) -> Predictor:
        """Every relation ranks entities as it sees them."""
        if self.division.components == 1:
            return super().predictor(model)
        encoder = DividedEncoder(self.division, model.tables, model.score, model.backend)
        return RelationPredictor(encoder)


def concerned(
    memory: Facts, new: Facts, masks: NDArray[np.int64], num_entities: int
) -> NDArray[np.bool_]:
    """Which remembered facts (k, 3) share an entity with a new fact, and with it a component, (k,).
    `masks` (2m,) has a bit for each component that a relation uses."""
    in_use = np.zeros(num_entities, dtype=np.int64)
    edges = with_inverses(new)
    np.bitwise_or.at(in_use, edges[:, 0], masks[edges[:, 1]])
    shared = in_use[memory[:, [0, 2]]] & masks[memory[:, 1]][:, None]
    return np.asarray(shared.any(axis=1))


@dataclass(frozen=True)
class Division:
    """How rows are divided: into `components`, of which a relation uses `active`; `reals` is that
    of the score."""

    components: int
    active: int
    reals: int = 1

    def top(self, attention: Tensor) -> tuple[Tensor, Tensor]:
        """The n most attended components of each relation, ascending, and their weights α, both
        (…, n); `attention` (…, K)."""
        alphas = attention.softmax(-1)
        chosen = attention.topk(self.active, dim=-1).indices.sort(-1).values
        return chosen, alphas.gather(-1, chosen)

    def seen(self, rows: Tensor, chosen: Tensor) -> Tensor:
        """The chosen components of rows (…, d), side by side; shape (…, n·d/K)."""
        size = rows.shape[-1] // (self.components * self.reals)
        parts = rows.reshape(*rows.shape[:-1], self.reals, self.components, size)
        return torch.take_along_dim(parts, chosen[..., None, :, None], dim=-2).flatten(-3)

    def weighted(self, rows: Tensor, chosen: Tensor, alphas: Tensor) -> Tensor:
        """`seen`, each component times its α."""
        size = rows.shape[-1] // (self.components * self.reals)
        weights = torch.cat([alphas.repeat_interleave(size, dim=-1)] * self.reals, dim=-1)
        return self.seen(rows, chosen) * weights


@dataclass(frozen=True)
class DividedMargin:
    """The margin loss on what relations see of entities, and how far attention is from the top n:
    mean over the batch of 1 - Σ_{k ∈ top-n(r)} α_r[k]."""

    division: Division
    score: Score
    margin: float

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """See `Loss`."""
        facts, corruptions, corrupt_object = as_tensors(batch, tables.entity.device)
        involved = torch.cat([facts[:, ::2], corruptions], dim=1)
        entities, places = torch.unique(involved, return_inverse=True)
        relations, used = torch.unique(facts[:, 1], return_inverse=True)
        entity = tables.entity[entities].requires_grad_()
        relation = tables.relation[relations].requires_grad_()
        attention = tables.extra[ATTENTION][relations].requires_grad_()

        chosen, alphas = self.division.top(attention)
        seen_relations = self.score.prepare_relations(self.division.seen(relation, chosen))
        parts = seen_relations.index_select(0, used)[:, None]
        # Not entity[places] and alphas[used]: threads would add up their gradients in any order.
        rows, weights = functional.embedding(places, entity), alphas.index_select(0, used)
        weighted = self.division.weighted(rows, chosen[used][:, None], weights[:, None])
        seen, side = self.score.prepare_entities(weighted), corrupt_object[..., None]
        subject, target, others = seen[:, :1], seen[:, 1:2], seen[:, 2:]
        positive = self.score.score(subject, parts, target)[:, 0]
        heads, tails = torch.where(side, subject, others), torch.where(side, others, target)
        negatives = self.score.score(heads, parts, tails)
        spread = (1 - weights.sum(-1)).mean()
        loss = margin_loss(positive, negatives, self.margin) + spread
        flows = torch.autograd.grad(loss, [entity, relation, attention])
        gradient.entity.add(entities, flows[0])
        gradient.relation.add(relations, flows[1])
        gradient.extra[ATTENTION].add(relations, flows[2])
        return float(loss.detach())


class DividedEncoder:
    """Entities (n, d), copied, as each relation sees them; the prepared parts of relations that are
    in use, (2m, n·d/K), with their components and weights."""

    def __init__(
        self, division: Division, tables: Parameters, score: Score, backend: Backend
    ) -> None:
        self.division, self.score, self.backend = division, score, backend
        self.entity = tables.entity.clone()
        self.chosen, self.alphas = division.top(tables.extra[ATTENTION])
        self.relation = score.prepare_relations(division.seen(tables.relation, self.chosen))

    def at(self, relation: int) -> TablePredictor:
        """See `RelationEncoder`."""
        own = slice(relation, relation + 1)
        seen = self.division.weighted(self.entity, self.chosen[own], self.alphas[own])
        entity = self.score.prepare_entities(seen)
        return TablePredictor(entity, self.relation, self.score, self.backend)

    def each(self, relations: Sequence[int]) -> Iterator[TablePredictor]:
        """See `RelationEncoder`."""
        return map(self.at, relations)
