"""Old facts as the last model tells them.

A profile knows that the question (h, r, ?) was answered c(h, r) times, and the last tables know who
of the entities of then is the likeliest to have been an answer: the c(h, r) best are taken for the
answers. These are as many facts as there were, and any objective can learn them like new ones. A
score that is a distance ranks well, but its softmax is blunt, and most of what is drawn from that
never was a fact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lkge.data.batches import batches
from lkge.data.snapshots import Facts
from lkge.methods.parts.profile import Profile
from lkge.models.model import Model
from lkge.models.objectives.softmax import blocks_of
from lkge.models.predictor import TablePredictor, best_first
from lkge.models.tables import Gradient


@dataclass(frozen=True)
class Retelling:
    """Facts (q, k, 3): k from each of q equal parts of all that can be told."""

    facts: Facts

    @classmethod
    def of(
        cls,
        teacher: TablePredictor,
        profile: Profile,
        shape: tuple[int, int],
        generator: np.random.Generator,
    ) -> Retelling:
        """`shape` is (q, k)."""
        places, ranks = profile.answered(shape[0] * shape[1], generator)
        objects = answers(teacher, profile.questions, places, ranks)
        return cls(np.column_stack([profile.questions[places], objects]).reshape(*shape, 3))

    def add_gradient(
        self, model: Model, share: float, gradient: Gradient, generator: np.random.Generator
    ) -> float:
        """Learn one fact of each part, as if it were new: make a gradient g of new facts
        (1 - λ) g + λ g_old, λ = `share`. Return λ times the loss of old facts."""
        chosen = generator.integers(0, self.facts.shape[1], len(self.facts))
        told = self.facts[np.arange(len(self.facts)), chosen]
        (batch,) = batches(
            *(told, len(told), model.negatives, len(model.tables.entity), generator),
            model.settings.sharing,
        )
        _scale(gradient, (1 - share) / share)
        loss = model.objective.add_gradient(model.tables, batch, gradient)
        _scale(gradient, share)
        return share * loss


def answers(
    teacher: TablePredictor, questions: Facts, places: NDArray[np.int64], ranks: NDArray[np.int64]
) -> NDArray[np.int32]:
    """The entity of each rank (p,), from 0, among the answers to questions (n, 2) at ascending
    places (p,)."""
    asked, starts = np.unique(places, return_index=True)
    own = np.split(np.minimum(ranks, len(teacher.entity) - 1), starts[1:])
    numbers = len(teacher.entity) if teacher.score.is_bilinear else teacher.entity.numel()
    found = [
        best_first(scores, mine.max() + 1)[mine]
        for block in blocks_of(len(asked), numbers)
        for scores, mine in zip(
            teacher.question_scores(questions[asked[block]]), own[block], strict=True
        )
    ]
    return np.concatenate(found).astype(np.int32)


def _scale(gradient: Gradient, factor: float) -> None:
    """Multiply what has been touched."""
    for part in gradient:
        part.values[part.rows()] *= factor
