"""Relation prediction as a second task (Chen et al., 2021): which relation leads from h to t?

    loss = λ · mean over facts of -log softmax_{r'} f(h, r', t)[r],

r' running over all relations and their inverses.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from lkge.data.batches import Batch
from lkge.kernels.scratch import Scratch
from lkge.kernels.softmax import softmax_gradient
from lkge.kernels.updates import scatter
from lkge.models.objectives.base import Objective
from lkge.models.objectives.softmax import blocks_of
from lkge.models.scores import Bilinear, Score
from lkge.models.tables import Gradient, Tables


class FusedRelations:
    """`PlainRelations` for bilinear scores on CPU.

    f(h, r', t) = ⟨q, r'⟩ with q = `towards(h, t)`, and a gradient g on q is `towards(g, t)` on h
    and h·g on t.
    """

    def __init__(self, score: Bilinear, weight: float) -> None:
        self.score = score
        self.weight = weight
        self._scratch = Scratch()

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts = torch.from_numpy(batch.facts).long()
        head, tail = tables.entity[facts[:, 0]], tables.entity[facts[:, 2]]
        queries = self.score.towards(head, tail)
        on_queries = torch.from_numpy(self._scratch.take("on queries", *queries.shape))
        loss = softmax_gradient(
            queries, tables.relation, torch.arange(len(batch) + 1), facts[:, 1], 0.0,
            self.weight / len(batch), on_queries, gradient.relation.values, self._scratch,
        )  # fmt: skip
        values = gradient.entity.values.numpy()
        scatter(values, batch.facts[:, 0], self.score.towards(on_queries, tail).numpy())
        scatter(values, batch.facts[:, 2], self.score.compose(head, on_queries).numpy())
        gradient.entity.touched[facts[:, (0, 2)]] = 1
        gradient.relation.touched.fill_(1)
        return loss


class PlainRelations:
    """Relation prediction with any score, differentiated by torch, a block of facts at a time."""

    def __init__(self, score: Score, weight: float) -> None:
        self.score = score
        self.weight = weight

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts = torch.from_numpy(batch.facts).long().to(tables.entity.device)
        entities, places = torch.unique(facts[:, (0, 2)], return_inverse=True)
        entity = tables.entity[entities].requires_grad_()
        relation = tables.relation.detach().requires_grad_()
        prepared = [self.score.prepare_entities(entity), self.score.prepare_relations(relation)]
        leaves = [part.detach().requires_grad_() for part in prepared]
        total = 0.0
        for part in blocks_of(len(facts), relation.numel()):
            ends = leaves[0][places[part]].unsqueeze(2)
            logits = self.score.score(ends[:, 0], leaves[1], ends[:, 1])
            loss = functional.cross_entropy(logits, facts[part, 1], reduction="sum")
            loss = loss * (self.weight / len(facts))
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        slopes = [leaf.grad for leaf in leaves]
        on_entity, on_relation = torch.autograd.grad(prepared, [entity, relation], slopes)
        gradient.entity.add(entities, on_entity)
        gradient.relation.add(torch.arange(len(relation), device=relation.device), on_relation)
        return total


def relation_prediction(score: Score, weight: float, fused: bool) -> Objective:
    """Matrix products where they are wanted and serve this score, otherwise the plain twin."""
    if fused and isinstance(score, Bilinear):
        return FusedRelations(score, weight)
    return PlainRelations(score, weight)
