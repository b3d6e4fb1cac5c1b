"""Losses differentiated by torch, on any device: those that compare a fact with its own negatives,
penalties on rows, and sums of losses."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lkge.data.batches import Batch
from lkge.models.losses import Loss, PerFactLoss, margin_loss, sampled_softmax_loss
from lkge.models.parameters import Gradient, Parameters, RowGradient, index, placed
from lkge.models.scores import Score, moduli


@dataclass
class NegativesLoss(ABC):
    """A loss of the scores of facts and of their negatives. Only the rows of the batch are used."""

    score: Score

    @abstractmethod
    def loss(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """The mean loss, from scores of facts (B,) and of their negatives (B, K)."""

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        facts, heads, tails = _compared(batch, tables.device)
        entities, places = torch.unique(torch.stack([heads, tails]), return_inverse=True)
        relations, used = torch.unique(facts[:, 1], return_inverse=True)
        loss, on_entities, on_relations = self._differentiated(
            tables.entity[entities], tables.relation[relations], places, used
        )
        gradient.entity.add(entities, on_entities)
        gradient.relation.add(relations, on_relations)
        return loss

    def add_squares(self, tables: Parameters, batch: Batch, squares: Parameters) -> None:
        """See `PerFactLoss`. Every fact has rows of its own, so that their gradients, times the
        number of facts, are those of its loss alone."""
        facts, heads, tails = _compared(batch, tables.device)
        own = len(tables.entity) * torch.arange(len(facts), device=facts.device)[:, None]
        keys, places = torch.unique(torch.stack([heads + own, tails + own]), return_inverse=True)
        entities, relations = keys % len(tables.entity), facts[:, 1]
        used = torch.arange(len(facts), device=facts.device)
        _, on_entities, on_relations = self._differentiated(
            tables.entity[entities], tables.relation[relations], places, used
        )
        squares.entity.index_add_(0, entities, (len(facts) * on_entities).square())
        squares.relation.index_add_(0, relations, (len(facts) * on_relations).square())

    def _differentiated(
        self, entity: Tensor, relation: Tensor, places: Tensor, used: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        """The loss, and its gradient on rows of entities (u, d) and of relations (v, d). `places`
        (2, B, 1 + K) are those of heads and tails, of facts and their negatives, `used` (B,)
        those of relations."""
        rows = [entity.requires_grad_(), relation.requires_grad_()]
        prepared = self.score.prepare_entities(entity)
        between = self.score.prepare_relations(relation)[used].unsqueeze(1)
        scores = self.score.score(prepared[places[0]], between, prepared[places[1]])
        loss = self.loss(scores[:, 0], scores[:, 1:])
        on_entities, on_relations = torch.autograd.grad(loss, rows)
        return float(loss.detach()), on_entities, on_relations


def as_tensors(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Facts (B, 3), corruptions (B, K) and their sides (B, K), to index with."""
    facts, corruptions = index(batch.facts, device), index(batch.corruptions, device)
    return facts, corruptions, placed(batch.corrupt_object, device)


def _compared(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The facts (B, 3), and heads and tails (B, 1 + K): their own first, then as corrupted."""
    facts, corruptions, corrupt_object = as_tensors(batch, device)
    subjects, objects = facts[:, :1], facts[:, 2:]
    heads = torch.cat([subjects, torch.where(corrupt_object, subjects, corruptions)], dim=1)
    tails = torch.cat([objects, torch.where(corrupt_object, corruptions, objects)], dim=1)
    return facts, heads, tails


@dataclass
class MarginLoss(NegativesLoss):
    """The margin loss, Eq. (7), of any score; see `margin_loss`."""

    margin: float
    adversarial: float = 0.0

    def loss(self, positive: Tensor, negatives: Tensor) -> Tensor:
        return margin_loss(positive, negatives, self.margin, self.adversarial)


@dataclass
class SampledSoftmaxLoss(NegativesLoss):
    """The softmax over a fact and its negatives, for graphs too large for all entities; see
    `sampled_softmax_loss`."""

    adversarial: float = 0.0
    smoothing: float = 0.0

    def loss(self, positive: Tensor, negatives: Tensor) -> Tensor:
        return sampled_softmax_loss(positive, negatives, self.adversarial, self.smoothing)


@dataclass
class RowPenalty:
    """N3 (Lacroix et al., 2018) and L2 of the rows of a batch:

        mean over facts of Σ_{x ∈ {h, r, t}} (n3 · Σ |x_k|³ + l2 · Σ |x_k|²),

    |x_k| the modulus of a coordinate where coordinates are complex. A row that several facts have
    counts once for each; relations weigh like entities.
    """

    score: Score
    n3: float
    l2: float

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        facts, size = index(batch.facts, tables.device), len(batch)
        on_entities = self._add(tables.entity, facts[:, ::2], size, gradient.entity)
        return on_entities + self._add(tables.relation, facts[:, 1], size, gradient.relation)

    def _add(self, table: Tensor, used: Tensor, facts: int, gradient: RowGradient) -> float:
        """The part of one table."""
        rows, counts = self.count_rows(used, len(table))
        weights = counts / facts
        gradient.touched[rows] = 1
        losses = self.add_to_rows(table, rows, weights, gradient.values)
        return float((weights * losses).sum())

    def count_rows(self, used: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
        """The distinct rows among those used, (u,), and how often each is used, (u,)."""
        rows, counts = torch.unique(used, return_counts=True)
        return rows, counts

    def add_to_rows(self, table: Tensor, rows: Tensor, weights: Tensor, gradient: Tensor) -> Tensor:
        """Add the gradient of distinct rows (u,), ∂|x|³/∂x = 3 |x| x; the loss of each, (u,)."""
        values = table[rows]
        sizes = moduli(values, self.score.reals)
        factors = (3 * self.n3 * sizes + 2 * self.l2) * weights[:, None]
        gradient[rows] += factors.repeat(1, self.score.reals) * values
        return self.n3 * sizes.pow(3).sum(1) + self.l2 * sizes.square().sum(1)


@dataclass
class SumOfLosses:
    """The loss on facts, and further terms."""

    on_facts: PerFactLoss
    terms: Sequence[Loss]

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        losses = (self.on_facts, *self.terms)
        return sum(loss.add_gradient(tables, batch, gradient) for loss in losses)

    def add_squares(self, tables: Parameters, batch: Batch, squares: Parameters) -> None:
        """See `PerFactLoss`. The further terms are no losses of a fact, and are left out."""
        self.on_facts.add_squares(tables, batch, squares)


def add_squares_singly(loss: Loss, tables: Parameters, batch: Batch, squares: Parameters) -> None:
    """`PerFactLoss.add_squares` of any loss, one fact at a time."""
    gradient = Gradient.like(tables)
    for fact in batch.singly():
        loss.add_gradient(tables, fact, gradient)
        for part, total in zip(gradient, squares, strict=True):
            rows = part.rows()
            total[rows] += part.values[rows].square()
            part.clear(rows)
