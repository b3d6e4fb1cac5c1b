"""Vectors in components, of which each relation uses a few (DiCGRL).

A row (d,) is K components of size d/K; where coordinates are complex, a component is a part of the
real half together with the same part of the imaginary half. Relation r attends to them,
α_r = softmax(a_r), and sees of an entity only its n most attended components, each weighted:
x_r = (α_r[k]·x[k]) for k in top-n(r). Its own vector has the same n components, unweighted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lkge.data.batches import Batch
from lkge.kernels import components as kernel
from lkge.methods.parts.renumbering import renumbered
from lkge.models.losses import margin_loss
from lkge.models.objectives import as_tensors
from lkge.models.objectives.margin import margin_objective
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Score
from lkge.models.tables import Gradient, Tables

ATTENTION = "attention"
"""The table of a_r, (2m, K)."""


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

    def choice(self, chosen: Tensor, alphas: Tensor, rows: Tensor) -> kernel.Choice:
        """What `top` has chosen, for kernels on rows (…, d)."""
        size = rows.shape[-1] // (self.components * self.reals)
        return kernel.Choice(chosen.numpy(), alphas.detach().numpy(), self.reals, size)


class DividedMargin:
    """The margin loss on what relations see of entities, and how far attention is from the top n:
    mean over the batch of 1 - Σ_{k ∈ top-n(r)} α_r[k]."""

    def __init__(self, division: Division, score: Score, margin: float) -> None:
        self.division = division
        self.score = score
        self.margin = margin

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts, corruptions, corrupt_object = as_tensors(batch, tables.entity.device)
        entities, places = torch.unique(
            torch.cat([facts[:, [0, 2]], corruptions], dim=1), return_inverse=True
        )
        relations, used = torch.unique(facts[:, 1], return_inverse=True)
        entity = tables.entity[entities].requires_grad_()
        relation = tables.relation[relations].requires_grad_()
        attention = tables.extra[ATTENTION][relations].requires_grad_()

        chosen, alphas = self.division.top(attention)
        parts = self.score.prepare_relations(self.division.seen(relation, chosen))[used][:, None]
        seen = self.score.prepare_entities(
            self.division.weighted(entity[places], chosen[used][:, None], alphas[used][:, None])
        )
        subject, target, others = seen[:, :1], seen[:, 1:2], seen[:, 2:]
        positive = self.score.score(subject, parts, target)[:, 0]
        negatives = self.score.score(
            torch.where(corrupt_object[..., None], subject, others),
            parts,
            torch.where(corrupt_object[..., None], others, target),
        )
        spread = (1 - alphas.sum(-1))[used].mean()
        loss = margin_loss(positive, negatives, self.margin) + spread
        flows = torch.autograd.grad(loss, [entity, relation, attention])
        gradient.entity.add(entities, flows[0])
        gradient.relation.add(relations, flows[1])
        gradient.extra[ATTENTION].add(relations, flows[2])
        return float(loss.detach())


class FusedDividedMargin:
    """The twin of `DividedMargin` on CPU: each entity that a relation of the batch sees is a row of
    its own, made and differentiated by kernels; the margin loss is that of whole rows."""

    def __init__(self, division: Division, score: Score, margin: float) -> None:
        self.division = division
        self.objective = margin_objective(score, margin, fused=True)

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        used = batch.facts[:, 1]
        asked, seen = renumbered(batch, used, used)
        entities, queries = np.ascontiguousarray(asked.T)
        relation = tables.relation.detach().requires_grad_()
        attention = tables.extra[ATTENTION].detach().requires_grad_()

        chosen, alphas = self.division.top(attention)
        choice = self.division.choice(chosen, alphas, tables.entity)
        parts = self.division.seen(relation, chosen)
        spread = (1 - alphas.sum(-1))[torch.from_numpy(used).long()].mean()
        encoded = Tables(seen_of(tables.entity, entities, queries, choice), parts.detach())
        on = Gradient.like(encoded)
        loss = self.objective.add_gradient(encoded, seen, on)
        on_alphas = kernel.seen_gradient(
            tables.entity.numpy(),
            entities,
            queries,
            choice,
            on.entity.values.numpy(),
            gradient.entity.values.numpy(),
            gradient.entity.touched.numpy(),
        )
        flows = torch.autograd.grad(
            [parts, alphas, spread],
            [relation, attention],
            [on.relation.values, torch.from_numpy(on_alphas), torch.ones_like(spread)],
        )
        relations = on.relation.rows()
        gradient.relation.add(relations, flows[0][relations])
        gradient.extra[ATTENTION].add(relations, flows[1][relations])
        return loss + float(spread.detach())


def seen_of(
    entity: Tensor, entities: kernel.Places, queries: kernel.Places, choice: kernel.Choice
) -> Tensor:
    """`Division.weighted` of entities (k,) as their queries (k,) see them, by a kernel."""
    width = choice.reals * choice.chosen.shape[1] * choice.size
    out = entity.new_empty(len(entities), width)
    kernel.seen(entity.numpy(), entities, queries, *choice, out.numpy())
    return out


@dataclass(frozen=True)
class DividedEncoder:
    """Entities (n, d) as each relation sees them; `relation` are the prepared parts of relations
    that are in use, (2m, n·d/K), `chosen` and `alphas` their components and weights."""

    division: Division
    entity: Tensor
    relation: Tensor
    chosen: Tensor
    alphas: Tensor
    score: Score
    fused: bool

    @classmethod
    def of(cls, division: Division, tables: Tables, score: Score, fused: bool) -> DividedEncoder:
        """Freeze a copy of the tables."""
        chosen, alphas = division.top(tables.extra[ATTENTION])
        relation = score.prepare_relations(division.seen(tables.relation, chosen))
        return cls(division, tables.entity.clone(), relation, chosen, alphas, score, fused)

    def at(self, relation: int) -> TablePredictor:
        """See `RelationEncoder`."""
        entity = self.score.prepare_entities(self._seen_by(relation))
        return TablePredictor(entity, self.relation, self.score, self.fused)

    def each(self, relations: Sequence[int]) -> Iterator[TablePredictor]:
        """See `RelationEncoder`."""
        return map(self.at, relations)

    def _seen_by(self, relation: int) -> Tensor:
        """All entities, (n, n·d/K)."""
        if not self.fused:
            own = slice(relation, relation + 1)
            return self.division.weighted(self.entity, self.chosen[own], self.alphas[own])
        entities = np.arange(len(self.entity))
        choice = self.division.choice(self.chosen, self.alphas, self.entity)
        return seen_of(self.entity, entities, np.full_like(entities, relation), choice)
