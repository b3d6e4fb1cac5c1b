"""Losses that compare a fact with its own corruptions, differentiated by torch."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from lkge.data.batches import Batch
from lkge.models.losses import sampled_softmax_loss
from lkge.models.objectives.base import as_tensors
from lkge.models.scores import Score
from lkge.models.tables import Gradient, Tables


class Contrast(ABC):
    """A loss of the scores of facts and of their corruptions, on the rows of the batch alone."""

    score: Score

    @abstractmethod
    def loss(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """The mean loss, from scores of facts (B,) and of their corruptions (B, K)."""

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts, heads, tails = _compared(batch, tables.entity.device)
        entities, places = torch.unique(torch.stack([heads, tails]), return_inverse=True)
        relations, used = torch.unique(facts[:, 1], return_inverse=True)
        loss, on_entities, on_relations = self._slopes(
            tables.entity[entities], tables.relation[relations], places, used
        )
        gradient.entity.add(entities, on_entities)
        gradient.relation.add(relations, on_relations)
        return loss

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`. Every fact has rows of its own, so that their gradients, times
        the number of facts, are those of its loss alone."""
        facts, heads, tails = _compared(batch, tables.entity.device)
        own = len(tables.entity) * torch.arange(len(facts), device=facts.device)[:, None]
        keys, places = torch.unique(torch.stack([heads + own, tails + own]), return_inverse=True)
        entities, relations = keys % len(tables.entity), facts[:, 1]
        used = torch.arange(len(facts), device=facts.device)
        _, on_entities, on_relations = self._slopes(
            tables.entity[entities], tables.relation[relations], places, used
        )
        squares.entity.index_add_(0, entities, (len(facts) * on_entities).square())
        squares.relation.index_add_(0, relations, (len(facts) * on_relations).square())

    def _slopes(
        self, entity: Tensor, relation: Tensor, places: Tensor, used: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        """The loss, and its gradient on rows of entities (u, d) and of relations (v, d). `places`
        (2, B, 1 + K) are those of heads and tails, of facts and their corruptions, `used` (B,)
        those of relations."""
        rows = [entity.requires_grad_(), relation.requires_grad_()]
        prepared = self.score.prepare_entities(entity)
        between = self.score.prepare_relations(relation)[used].unsqueeze(1)
        scores = self.score.score(prepared[places[0]], between, prepared[places[1]])
        loss = self.loss(scores[:, 0], scores[:, 1:])
        on_entities, on_relations = torch.autograd.grad(loss, rows)
        return float(loss.detach()), on_entities, on_relations


def _compared(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """The facts (B, 3), and heads and tails (B, 1 + K): their own first, then as corrupted."""
    facts, corruptions, corrupt_object = as_tensors(batch, device)
    subjects, objects = facts[:, :1], facts[:, 2:]
    heads = torch.cat([subjects, torch.where(corrupt_object, subjects, corruptions)], dim=1)
    tails = torch.cat([objects, torch.where(corrupt_object, corruptions, objects)], dim=1)
    return facts, heads, tails


class SampledSoftmax(Contrast):
    """The softmax over a fact and its corruptions, for graphs too large for all entities."""

    def __init__(self, score: Score, adversarial: float = 0.0, smoothing: float = 0.0) -> None:
        self.score = score
        self.adversarial = adversarial
        self.smoothing = smoothing

    def loss(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """See `sampled_softmax_loss`."""
        return sampled_softmax_loss(positive, negatives, self.adversarial, self.smoothing)
