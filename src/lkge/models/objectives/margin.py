"""The margin loss: the paper's, Eq. (7)."""

from __future__ import annotations

from torch import Tensor

from lkge.data.batches import Batch
from lkge.kernels.margin import margin_gradient
from lkge.kernels.scratch import Scratch
from lkge.kernels.squares import margin_squares
from lkge.models.losses import margin_loss
from lkge.models.objectives.base import FactwiseObjective
from lkge.models.objectives.contrast import Contrast
from lkge.models.objectives.fused_contrast import contrast
from lkge.models.scores import Score
from lkge.models.tables import Gradient, Tables


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


class PlainMargin(Contrast):
    """The margin loss of any score."""

    def __init__(self, score: Score, margin: float, adversarial: float = 0.0) -> None:
        self.score = score
        self.margin = margin
        self.adversarial = adversarial

    def loss(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """See `margin_loss`."""
        return margin_loss(positive, negatives, self.margin, self.adversarial)


def margin_objective(
    score: Score, margin: float, fused: bool, adversarial: float = 0.0
) -> FactwiseObjective:
    """One kernel where it is wanted and serves this score and equal weights, otherwise what serves
    any contrast."""
    if fused and score.name == "transe" and not adversarial:
        return FusedMargin(margin)
    return contrast(PlainMargin(score, margin, adversarial), fused)
