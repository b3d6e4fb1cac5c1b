"""The softmax over all entities or all relations, and distillation, differentiated by torch.

1vsAll: loss = -log softmax_e f(h, r, e)[t], mean over facts. Every fact is learned in both
directions, as its inverse is a fact of a relation of its own. With smoothing ε the target is
(1 - ε) on t and ε/n on each of all n entities. Where a batch has a sample of the entities, the
candidates are those of the sample, and the exponential of each is multiplied by its importance
weight.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from lkge.backends.torch_losses import SampledSoftmaxLoss, add_squares_singly
from lkge.data.batches import Batch
from lkge.data.snapshots import Facts
from lkge.models.parameters import Gradient, Parameters, index, placed
from lkge.models.scores import Score

MOST_NUMBERS = 1 << 24
"""Numbers that autograd holds for a block of queries, about."""


@dataclass
class SoftmaxLoss:
    """The softmax over all entities of any score, a block of queries at a time. Where a batch has
    negatives, it is the softmax over these."""

    score: Score
    smoothing: float = 0.0

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        if batch.corruptions.shape[1]:
            return self._over_negatives().add_gradient(tables, batch, gradient)
        return self.add_over_all(tables, batch, gradient)

    def add_squares(self, tables: Parameters, batch: Batch, squares: Parameters) -> None:
        if batch.corruptions.shape[1]:
            self._over_negatives().add_squares(tables, batch, squares)
        else:
            self.add_squares_over_all(tables, batch, squares)

    def _over_negatives(self) -> SampledSoftmaxLoss:
        return SampledSoftmaxLoss(self.score, smoothing=self.smoothing)

    def add_over_all(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """`add_gradient` of the softmax over all entities, or over the sample of the batch."""
        facts = index(batch.facts, tables.device)
        targets, among, more = facts[:, 2], None, torch.zeros((), device=facts.device)
        if batch.sample is not None:
            among = placed(batch.sample.entities, tables.device)
            targets = torch.searchsorted(among, targets.contiguous())
            more = placed(batch.sample.importance, tables.device).log()

        def loss(part: slice, logits: Tensor) -> Tensor:
            return functional.cross_entropy(
                logits + more, targets[part], reduction="sum", label_smoothing=self.smoothing
            ) / len(facts)  # fmt: skip

        return differentiate(self.score, tables, facts, loss, gradient, among)

    def add_squares_over_all(self, tables: Parameters, batch: Batch, squares: Parameters) -> None:
        """`add_squares` of the softmax over all entities."""
        add_squares_singly(self, tables, batch, squares)


@dataclass
class RelationPrediction:
    """Relation prediction as a second task (Chen et al., 2021), with any score:

        loss = λ · mean over facts of -log softmax_{r'} f(h, r', t)[r],

    r' running over all relations and their inverses; a block of facts at a time.
    """

    score: Score
    weight: float

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        facts = index(batch.facts, tables.device)
        entities, places = torch.unique(facts[:, ::2], return_inverse=True)
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


@dataclass
class DistillationLoss:
    """`Distillation` with any score, a block of queries at a time."""

    score: Score
    teacher: Parameters

    def __post_init__(self) -> None:
        """The teacher never changes: its rows are prepared once."""
        self.teacher = Parameters(
            self.score.prepare_entities(self.teacher.entity),
            self.score.prepare_relations(self.teacher.relation),
        )

    def add_gradient(
        self, tables: Parameters, queries: Facts, weights: Tensor, gradient: Gradient
    ) -> float:
        rows, weights = index(queries, tables.device), weights.to(tables.device)
        asked = self.queries(rows)

        def loss(part: slice, scores: Tensor) -> Tensor:
            wanted = self.score.candidates(asked[part], self.teacher.entity).softmax(1)
            losses = -(wanted * scores.log_softmax(1)[:, : wanted.shape[1]]).sum(1)
            return (weights[part] * losses).sum()

        return differentiate(self.score, tables, rows, loss, gradient)

    def queries(self, rows: Tensor) -> Tensor:
        """compose(h, r) of the teacher for queries (q, 2), (q, d)."""
        head, relation = self.teacher.entity[rows[:, 0]], self.teacher.relation[rows[:, 1]]
        return self.score.compose(head, relation)


def differentiate(
    score: Score,
    tables: Parameters,
    queries: Tensor,
    loss: Callable[[slice, Tensor], Tensor],
    gradient: Gradient,
    among: Tensor | None = None,
) -> float:
    """Add the gradient of a sum of losses, each of the scores (b, n) that all entities, or those of
    `among` (n,), have as answers to a block of the queries (q, ≥ 2); return the sum."""
    relations, used = torch.unique(queries[:, 1], return_inverse=True)
    rows = [tables.entity.detach(), tables.relation[relations]]
    entity, relation = (part.requires_grad_() for part in rows)
    prepared = [score.prepare_entities(entity), score.prepare_relations(relation)]
    leaves = [part.detach().requires_grad_() for part in prepared]
    total = 0.0
    numbers = len(entity) if score.is_bilinear else entity.numel()
    for part in blocks_of(len(queries), numbers):
        vectors = score.compose(leaves[0][queries[part, 0]], leaves[1][used[part]])
        candidates = leaves[0] if among is None else leaves[0][among]
        of_part = loss(part, score.candidates(vectors, candidates))
        of_part.backward()  # type: ignore[no-untyped-call]
        total += float(of_part.detach())
    slopes = [leaf.grad for leaf in leaves]
    on_entity, on_relation = torch.autograd.grad(prepared, [entity, relation], slopes)
    touched = (
        torch.arange(len(entity), device=entity.device)
        if among is None
        else torch.unique(torch.cat([queries[:, 0], among]))
    )
    gradient.entity.add(touched, on_entity[touched])
    gradient.relation.add(relations, on_relation)
    return total


def blocks_of(queries: int, numbers: int, most: int | None = None) -> list[slice]:
    """Queries in blocks, where each query takes so many numbers, and a block about `most`."""
    size = max(1, (MOST_NUMBERS if most is None else most) // max(1, numbers))
    return [slice(start, start + size) for start in range(0, queries, size)]
