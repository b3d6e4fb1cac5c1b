"""The softmax over all entities (1vsAll): loss = -log softmax_e f(h, r, e)[t], mean over facts.

Every fact is learned in both directions, as its inverse is a fact of a relation of its own. With
smoothing ε the target is (1 - ε) on t and ε/n on each of all n entities. Where a batch has a sample
of them, these are all that there are, and the exponential of each counts as often as it stands for
one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from lkge.data.batches import Batch, Sample
from lkge.data.snapshots import Facts
from lkge.kernels.scratch import Scratch
from lkge.kernels.softmax import softmax_gradient, softmax_squares
from lkge.kernels.updates import scatter
from lkge.models.objectives.base import FactwiseObjective, add_squares_singly
from lkge.models.objectives.contrast import SampledSoftmax
from lkge.models.questions import Questions
from lkge.models.scores import Bilinear, Score
from lkge.models.tables import Gradient, Tables

MOST_NUMBERS = 1 << 24
"""Numbers that autograd holds for a block of queries, about."""


class Softmax:
    """Over all entities where a batch has no corruptions, and over its own where it has some."""

    def __init__(self, over_all: FactwiseObjective, over_samples: FactwiseObjective) -> None:
        self.over_all = over_all
        self.over_samples = over_samples

    def _for(self, batch: Batch) -> FactwiseObjective:
        return self.over_samples if batch.corruptions.shape[1] else self.over_all

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        return self._for(batch).add_gradient(tables, batch, gradient)

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        self._for(batch).add_squares(tables, batch, squares)


@dataclass(frozen=True)
class Pose:
    """Questions (h, r, ·), q of them, as queries h·r (q, d) of a bilinear score, and the gradient
    on these, to be filled in.

    As f(h, r, t) = ⟨h·r, t⟩, a gradient g on the query h·r is `towards(r, g)` on h and
    `towards(h, g)` on r.
    """

    score: Bilinear
    asked: Facts
    head: Tensor
    relation: Tensor
    queries: Tensor
    on_queries: Tensor

    @classmethod
    def of(cls, score: Bilinear, tables: Tables, asked: Facts, scratch: Scratch) -> Pose:
        """The questions of facts (q, 3), whatever their objects."""
        rows = torch.from_numpy(asked).long()
        head = tables.entity.index_select(0, rows[:, 0])
        relation = tables.relation.index_select(0, rows[:, 1])
        queries = score.compose(head, relation)
        on_queries = torch.from_numpy(scratch.take("on queries", *queries.shape))
        return cls(score, asked, head, relation, queries, on_queries)

    def slopes(self) -> tuple[Tensor, Tensor]:
        """The gradient on heads and on relations, both (q, d)."""
        return (
            self.score.towards(self.relation, self.on_queries),
            self.score.towards(self.head, self.on_queries),
        )

    def add_gradient(self, gradient: Gradient) -> None:
        """Add the gradient on heads and relations."""
        heads, relations = self.asked[:, 0], self.asked[:, 1]
        for part, rows, slopes in zip(
            (gradient.entity, gradient.relation), (heads, relations), self.slopes(), strict=True
        ):
            scatter(part.values.numpy(), rows, slopes.numpy())
            part.touched[torch.from_numpy(rows).long()] = 1


@dataclass(frozen=True)
class Candidates:
    """Rows (n, d) that compete for the questions of a batch, the gradient on them, (n, d), to be
    added to, and for how many each stands, (n,), where that is not one."""

    rows: Tensor
    on_rows: Tensor
    places: Tensor | None = None
    importance: Tensor | None = None

    @classmethod
    def of(cls, tables: Tables, batch: Batch, gradient: Gradient) -> Candidates:
        """All entities, or the sample of the batch."""
        if batch.sample is None:
            return cls(tables.entity, gradient.entity.values)
        places, importance = _sampled(batch.sample)
        rows = tables.entity.index_select(0, places)
        return cls(rows, torch.zeros_like(rows), places, importance)

    def numbers_of(self, entities: NDArray[np.int32]) -> Tensor:
        """The rows of entities, (b,) each."""
        wanted = torch.from_numpy(entities).long()
        return wanted if self.places is None else torch.searchsorted(self.places, wanted)

    def add_gradient(self, gradient: Gradient) -> None:
        """Add the gradient on these rows, if it is not there yet."""
        if self.places is None:
            gradient.entity.touched.fill_(1)
        else:
            gradient.entity.add_fused(self.places, self.on_rows)


class FusedSoftmax:
    """`PlainSoftmax` for bilinear scores on CPU: three matrix products and no second copy of the
    scores; facts that ask the same question share one row of them."""

    def __init__(self, score: Bilinear, smoothing: float = 0.0) -> None:
        self.score = score
        self.smoothing = smoothing
        self._scratch = Scratch()

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        asked, candidates = Questions.of(batch.facts), Candidates.of(tables, batch, gradient)
        pose = Pose.of(self.score, tables, asked.distinct, self._scratch)
        loss = softmax_gradient(
            pose.queries, candidates.rows, torch.from_numpy(asked.bounds),
            candidates.numbers_of(asked.targets), self.smoothing, 1 / len(batch),
            pose.on_queries, candidates.on_rows, self._scratch, candidates.importance,
        )  # fmt: skip
        candidates.add_gradient(gradient)
        pose.add_gradient(gradient)
        return loss

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`. The head of a fact is a candidate, too: its slope is the sum of
        what it has as the one and as the other."""
        facts = torch.from_numpy(batch.facts).long()
        pose = Pose.of(self.score, tables, batch.facts, self._scratch)
        as_candidates = softmax_squares(
            pose.queries, tables.entity, facts[:, 2], self.smoothing, facts[:, 0], pose.on_queries,
            squares.entity, self._scratch,
        )  # fmt: skip
        on_head, on_relation = pose.slopes()
        more = (on_head + 2 * as_candidates) * on_head
        scatter(squares.entity.numpy(), batch.facts[:, 0], more.numpy())
        scatter(squares.relation.numpy(), batch.facts[:, 1], on_relation.square().numpy())


class PlainSoftmax:
    """The softmax over all entities of any score, differentiated by torch, a block of queries at a
    time."""

    def __init__(self, score: Score, smoothing: float = 0.0) -> None:
        self.score = score
        self.smoothing = smoothing

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts = torch.from_numpy(batch.facts).long().to(tables.entity.device)
        targets, among, more = facts[:, 2], None, torch.zeros((), device=facts.device)
        if batch.sample is not None:
            among, importance = (each.to(facts.device) for each in _sampled(batch.sample))
            targets, more = torch.searchsorted(among, targets.contiguous()), importance.log()

        def loss(part: slice, logits: Tensor) -> Tensor:
            return functional.cross_entropy(
                logits + more, targets[part], reduction="sum", label_smoothing=self.smoothing
            ) / len(facts)  # fmt: skip

        return differentiate(self.score, tables, facts, loss, gradient, among)

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        add_squares_singly(self, tables, batch, squares)


def _sampled(sample: Sample) -> tuple[Tensor, Tensor]:
    """Its entities and for how many each stands, (k,) each."""
    return torch.from_numpy(sample.entities), torch.from_numpy(sample.importance)


def differentiate(
    score: Score,
    tables: Tables,
    asked: Tensor,
    loss: Callable[[slice, Tensor], Tensor],
    gradient: Gradient,
    among: Tensor | None = None,
) -> float:
    """Add the gradient of a sum of losses, each of the scores (b, n) that all entities, or those of
    `among` (n,), have as answers to a block of the questions (q, ≥ 2); return the sum."""
    relations, used = torch.unique(asked[:, 1], return_inverse=True)
    rows = [tables.entity.detach(), tables.relation[relations]]
    entity, relation = (part.requires_grad_() for part in rows)
    prepared = [score.prepare_entities(entity), score.prepare_relations(relation)]
    leaves = [part.detach().requires_grad_() for part in prepared]
    total = 0.0
    numbers = len(entity) if score.is_bilinear else entity.numel()
    for part in blocks_of(len(asked), numbers):
        queries = score.compose(leaves[0][asked[part, 0]], leaves[1][used[part]])
        candidates = leaves[0] if among is None else leaves[0][among]
        of_part = loss(part, score.candidates(queries, candidates))
        of_part.backward()  # type: ignore[no-untyped-call]
        total += float(of_part.detach())
    slopes = [leaf.grad for leaf in leaves]
    on_entity, on_relation = torch.autograd.grad(prepared, [entity, relation], slopes)
    touched = (
        torch.arange(len(entity), device=entity.device)
        if among is None
        else torch.unique(torch.cat([asked[:, 0], among]))
    )
    gradient.entity.add(touched, on_entity[touched])
    gradient.relation.add(relations, on_relation)
    return total


def blocks_of(queries: int, numbers: int, most: int | None = None) -> list[slice]:
    """Queries in blocks, where each query takes so many numbers, and a block about `most`."""
    size = max(1, (MOST_NUMBERS if most is None else most) // max(1, numbers))
    return [slice(start, start + size) for start in range(0, queries, size)]


def softmax_objective(score: Score, smoothing: float, fused: bool) -> FactwiseObjective:
    """Matrix products where they are wanted and serve this score, otherwise the plain twin."""
    over_all = (
        FusedSoftmax(score, smoothing)
        if fused and isinstance(score, Bilinear)
        else PlainSoftmax(score, smoothing)
    )
    return Softmax(over_all, SampledSoftmax(score, smoothing=smoothing))
