"""What an objective is."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from lkge.data.batches import Batch
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


def add_squares_singly(objective: Objective, tables: Tables, batch: Batch, squares: Tables) -> None:
    """`FactwiseObjective.add_squares` of any objective, one fact at a time."""
    gradient = Gradient.like(tables)
    for fact in batch.singly():
        objective.add_gradient(tables, fact, gradient)
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
