"""Losses that compare a fact with its own corruptions, differentiated by torch."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from lkge.data.batches import Batch
from lkge.models.losses import sampled_softmax_loss
from lkge.models.objectives.base import add_squares_singly, as_tensors
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
        facts, corruptions, corrupt_object = as_tensors(batch, tables.entity.device)
        subjects, objects = facts[:, :1], facts[:, 2:]
        heads = torch.cat([subjects, torch.where(corrupt_object, subjects, corruptions)], dim=1)
        tails = torch.cat([objects, torch.where(corrupt_object, corruptions, objects)], dim=1)
        entities, places = torch.unique(torch.stack([heads, tails]), return_inverse=True)
        relations, relation_places = torch.unique(facts[:, 1], return_inverse=True)
        entity_rows = tables.entity[entities].requires_grad_()
        relation_rows = tables.relation[relations].requires_grad_()
        unit = self.score.prepare_entities(entity_rows)
        translations = self.score.prepare_relations(relation_rows)[relation_places].unsqueeze(1)
        scores = self.score.score(unit[places[0]], translations, unit[places[1]])
        loss = self.loss(scores[:, 0], scores[:, 1:])
        on_entities, on_relations = torch.autograd.grad(loss, [entity_rows, relation_rows])
        gradient.entity.add(entities, on_entities)
        gradient.relation.add(relations, on_relations)
        return float(loss.detach())

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        add_squares_singly(self, tables, batch, squares)


class SampledSoftmax(Contrast):
    """The softmax over a fact and its corruptions, for graphs too large for all entities."""

    def __init__(self, score: Score, adversarial: float = 0.0, smoothing: float = 0.0) -> None:
        self.score = score
        self.adversarial = adversarial
        self.smoothing = smoothing

    def loss(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """See `sampled_softmax_loss`."""
        return sampled_softmax_loss(positive, negatives, self.adversarial, self.smoothing)
