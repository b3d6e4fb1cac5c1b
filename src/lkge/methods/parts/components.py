"""Vectors in components, of which each relation uses a few (DiCGRL).

A row (d,) is K components of size d/K; where coordinates are complex, a component is a part of the
real half together with the same part of the imaginary half. Relation r attends to them,
α_r = softmax(a_r), and sees of an entity only its n most attended components, each weighted:
x_r = (α_r[k]·x[k]) for k in top-n(r). Its own vector has the same n components, unweighted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lkge.backends import Backend
from lkge.backends.torch_losses import as_tensors
from lkge.data.batches import Batch
from lkge.models.losses import margin_loss
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Score

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


class DividedMargin:
    """The margin loss on what relations see of entities, and how far attention is from the top n:
    mean over the batch of 1 - Σ_{k ∈ top-n(r)} α_r[k]."""

    def __init__(self, division: Division, score: Score, margin: float) -> None:
        self.division = division
        self.score = score
        self.margin = margin

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """See `Loss`."""
        facts, corruptions, corrupt_object = as_tensors(batch, tables.entity.device)
        entities, places = torch.unique(
            torch.cat([facts[:, ::2], corruptions], dim=1), return_inverse=True
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
    backend: Backend

    @classmethod
    def of(
        cls, division: Division, tables: Parameters, score: Score, backend: Backend
    ) -> DividedEncoder:
        """Freeze a copy of the tables."""
        chosen, alphas = division.top(tables.extra[ATTENTION])
        relation = score.prepare_relations(division.seen(tables.relation, chosen))
        return cls(division, tables.entity.clone(), relation, chosen, alphas, score, backend)

    def at(self, relation: int) -> TablePredictor:
        """See `RelationEncoder`."""
        own = slice(relation, relation + 1)
        seen = self.division.weighted(self.entity, self.chosen[own], self.alphas[own])
        entity = self.score.prepare_entities(seen)
        return TablePredictor(entity, self.relation, self.score, self.backend)

    def each(self, relations: Sequence[int]) -> Iterator[TablePredictor]:
        """See `RelationEncoder`."""
        return map(self.at, relations)
