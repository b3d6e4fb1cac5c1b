"""What an older model answers, learned by a younger one that knows more entities.

    loss = Σ_q w_q · -Σ_e softmax_e' f_old(h, r, e')[e] · log softmax_e' f(h, r, e')[e],

the older softmax over the entities that were known to it, the younger over all: what came later has
the target zero, and so does not push itself before the answers of old questions.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from lkge.data.snapshots import Facts
from lkge.kernels.scratch import Scratch
from lkge.kernels.softmax import distil_gradient
from lkge.models.objectives.softmax import Pose, differentiate
from lkge.models.scores import Bilinear, Score
from lkge.models.tables import Gradient, Tables


class Distillation(Protocol):
    """Knows how far a model answers otherwise than its teacher."""

    def add_gradient(
        self, tables: Tables, asked: Facts, weights: Tensor, gradient: Gradient
    ) -> float:
        """Add the gradient of the loss on questions (q, 2) of weights (q,); return that loss."""
        ...


class FusedDistillation:
    """`PlainDistillation` for bilinear scores on CPU: four matrix products."""

    def __init__(self, score: Bilinear, teacher: Tables) -> None:
        self.score = score
        self.teacher = teacher
        self._scratch = Scratch()

    def add_gradient(
        self, tables: Tables, asked: Facts, weights: Tensor, gradient: Gradient
    ) -> float:
        """See `Distillation`."""
        pose = Pose.of(self.score, tables, asked, self._scratch)
        rows = torch.from_numpy(asked).long()
        taught = self.score.compose(
            self.teacher.entity[rows[:, 0]], self.teacher.relation[rows[:, 1]]
        )
        loss = distil_gradient(
            pose.queries, tables.entity, taught, self.teacher.entity, weights, pose.on_queries,
            gradient.entity.values, self._scratch,
        )  # fmt: skip
        gradient.entity.touched.fill_(1)
        pose.add_gradient(gradient)
        return loss


class PlainDistillation:
    """Distillation with any score, differentiated by torch, a block of questions at a time."""

    def __init__(self, score: Score, teacher: Tables) -> None:
        self.score = score
        self.teacher = Tables(
            score.prepare_entities(teacher.entity), score.prepare_relations(teacher.relation)
        )

    def add_gradient(
        self, tables: Tables, asked: Facts, weights: Tensor, gradient: Gradient
    ) -> float:
        """See `Distillation`."""
        rows = torch.from_numpy(asked).long().to(tables.entity.device)

        def loss(part: slice, scores: Tensor) -> Tensor:
            wanted = self._wanted(rows[part])
            losses = -(wanted * scores.log_softmax(1)[:, : wanted.shape[1]]).sum(1)
            return (weights[part].to(losses.device) * losses).sum()

        return differentiate(self.score, tables, rows, loss, gradient)

    def _wanted(self, rows: Tensor) -> Tensor:
        """The teacher's answers, (q, k)."""
        queries = self.score.compose(
            self.teacher.entity[rows[:, 0]], self.teacher.relation[rows[:, 1]]
        )
        return self.score.candidates(queries, self.teacher.entity).softmax(1)


def distillation(score: Score, teacher: Tables, fused: bool) -> Distillation:
    """Matrix products where they are wanted and serve this score, otherwise the plain twin."""
    if fused and isinstance(score, Bilinear):
        return FusedDistillation(score, teacher)
    return PlainDistillation(score, teacher)
