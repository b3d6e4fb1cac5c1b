"""The loss on new facts and its row gradient: a fused kernel, or autograd on any device."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from lkge.data.batches import Batch
from lkge.kernels.margin import margin_gradient
from lkge.kernels.scratch import Scratch
from lkge.kernels.squares import margin_squares
from lkge.models.losses import margin_loss
from lkge.models.scores import Score
from lkge.models.tables import Gradient, Tables


class Objective(Protocol):
    """Knows the loss of a batch and adds its gradient."""

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """Add the gradient of the mean loss of the batch; return that loss."""
        ...


class FactwiseObjective(Objective, Protocol):
    """Knows the gradient of each fact apart, too."""

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """Add the squared gradient of the loss of each fact alone, Σ_b (∂loss_b/∂θ)²."""
        ...


class FusedMargin:
    """`PlainMargin` for L1 TransE on CPU, in one kernel."""

    def __init__(self, margin: float) -> None:
        self.margin = margin
        self._scratch = Scratch()

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        return margin_gradient(
            tables.entity.numpy(),
            tables.relation.numpy(),
            batch.facts,
            batch.corruptions,
            batch.corrupt_object,
            self.margin,
            gradient.entity.values.numpy(),
            gradient.entity.touched.numpy(),
            gradient.relation.values.numpy(),
            gradient.relation.touched.numpy(),
            self._scratch,
        )

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        margin_squares(
            tables.entity.numpy(),
            tables.relation.numpy(),
            batch.facts,
            batch.corruptions,
            batch.corrupt_object,
            self.margin,
            squares.entity.numpy(),
            squares.relation.numpy(),
            self._scratch,
        )


class PlainMargin:
    """The margin loss of any score, differentiated by torch on the rows of the batch."""

    def __init__(self, score: Score, margin: float) -> None:
        self.score = score
        self.margin = margin

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
        unit = self.score.prepare(entity_rows)
        translations = self.score.prepare(relation_rows)[relation_places].unsqueeze(1)
        scores = self.score.score(unit[places[0]], translations, unit[places[1]])
        loss = margin_loss(scores[:, 0], scores[:, 1:], self.margin)
        on_entities, on_relations = torch.autograd.grad(loss, [entity_rows, relation_rows])
        gradient.entity.add(entities, on_entities)
        gradient.relation.add(relations, on_relations)
        return float(loss.detach())

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        gradient = Gradient.like(tables)
        for fact in batch.singly():
            self.add_gradient(tables, fact, gradient)
            for part, total in zip(gradient, squares, strict=True):
                rows = part.rows()
                total[rows] += part.values[rows].square()
                part.clear(rows)


def as_tensors(batch: Batch, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Facts (B, 3), corruptions (B, K) and their sides (B, K), to index with."""
    return (
        torch.from_numpy(batch.facts).long().to(device),
        torch.from_numpy(batch.corruptions).long().to(device),
        torch.from_numpy(batch.corrupt_object).to(device),
    )


def margin_objective(score: Score, margin: float, fused: bool) -> FactwiseObjective:
    """The fused kernel where it is wanted and serves this score, otherwise the plain twin."""
    return FusedMargin(margin) if fused and score.name == "transe" else PlainMargin(score, margin)
