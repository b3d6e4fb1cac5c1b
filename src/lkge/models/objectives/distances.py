"""Losses that compare a fact with its own corruptions, in kernels where the score is a distance."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import torch

from lkge.data.batches import Batch
from lkge.kernels.contrast import L1, L2, MODULI, add_contrast_flows, contrast_distances
from lkge.models.objectives.base import FactwiseObjective, as_tensors
from lkge.models.objectives.contrast import Contrast
from lkge.models.scores import RotatE, TransE, TransEL2
from lkge.models.tables import Gradient, Tables

KINDS: Mapping[str, int] = MappingProxyType(
    {TransE.name: L1, TransEL2.name: L2, RotatE.name: MODULI}
)
"""Scores that are distances, kept by what a relation does to both ends."""


class FusedContrast:
    """A `Contrast` on CPU: torch differentiates the loss of the scores and the few rows that they
    come from, kernels the scores."""

    def __init__(self, plain: Contrast) -> None:
        self.plain = plain
        self._kind = KINDS[plain.score.name]

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts, corruptions, corrupt_object = as_tensors(batch, tables.entity.device)
        entities, places = torch.unique(
            torch.cat([facts[:, (0, 2)], corruptions], dim=1), return_inverse=True
        )
        relations, used = torch.unique(facts[:, 1], return_inverse=True)
        rows = [
            tables.entity[entities].requires_grad_(),
            tables.relation[relations].requires_grad_(),
        ]
        score = self.plain.score
        entity, relation = score.prepare_entities(rows[0]), score.prepare_relations(rows[1])
        between = relation[used]
        centres = torch.cat(
            [
                score.decompose(between, entity[places[:, 1]]),
                score.compose(entity[places[:, 0]], between),
            ]
        )
        forward = torch.cat([torch.ones_like(facts[:, :1]), corrupt_object.long()], dim=1)
        which = torch.arange(len(facts))[:, None] + len(facts) * forward
        compared = (
            self._kind, entity.detach().numpy(), centres.detach().numpy(),
            places[:, 1:].contiguous().numpy(), which.numpy(),
        )  # fmt: skip
        distances = contrast_distances(*compared)
        scores = (-torch.from_numpy(distances)).requires_grad_()
        loss = self.plain.loss(scores[:, 0], scores[:, 1:])
        (slopes,) = torch.autograd.grad(loss, scores)
        flows = [torch.zeros_like(entity), torch.zeros_like(centres)]
        add_contrast_flows(*compared, distances, (-slopes).numpy(), *(f.numpy() for f in flows))
        on_entities, on_relations = torch.autograd.grad([entity, centres], rows, flows)
        gradient.entity.add(entities, on_entities)
        gradient.relation.add(relations, on_relations)
        return float(loss.detach())

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        self.plain.add_squares(tables, batch, squares)


def contrast(plain: Contrast, fused: bool) -> FactwiseObjective:
    """Kernels where they are wanted and serve the score, otherwise the plain twin."""
    return FusedContrast(plain) if fused and plain.score.name in KINDS else plain
