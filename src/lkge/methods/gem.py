"""GEM: no step may raise the loss on remembered facts (Lopez-Paz and Ranzato, 2017).

With g the gradient of a step and G the gradients on the remembered facts of each past snapshot,

    g̃ = argmin ‖g̃ - g‖²  so that  G g̃ ≥ 0   is   g̃ = g + Gᵀv,
    v = argmin ½ vᵀGGᵀv + vᵀGg  with  v ≥ 0.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.batches import Batch, batches
from lkge.data.snapshots import Snapshot, with_inverses
from lkge.methods.base import State, register
from lkge.methods.memory import MemoryMethod
from lkge.models.model import REPLAY, Model, stream
from lkge.models.parameters import Gradient

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
ROUNDING = 1e-12


@register
class Gem(MemoryMethod):
    """The memory is divided by the snapshots its facts came from; each part gives a constraint.

    The corruptions of remembered facts are drawn once a snapshot.
    """

    name = "gem"
    summary = "project each step so that remembered facts do not suffer"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._parts: list[Batch] = []
        self._slopes: list[Gradient] = []
        self._projected = self._steps = 0

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """A batch and a gradient for each part of the memory."""
        generator = stream(self.run.training.seed, REPLAY, snapshot.index)
        edges = [with_inverses(part) for part in self.memory.parts()]
        self._parts = [
            batch
            for facts in edges
            for batch in batches(
                *(facts, len(facts), model.negatives, snapshot.num_entities, generator),
                self.run.training.negatives_shared_by,
            )
        ]
        self._slopes = [Gradient.like(model.tables) for _ in self._parts]
        self._projected = self._steps = 0

    def adjust(self, model: Model, gradient: Gradient) -> None:
        """Replace g by g̃ where any product with a past part is negative."""
        self._steps += bool(self._parts)
        for part, slope in zip(self._parts, self._slopes, strict=True):
            model.loss.add_gradient(model.tables, part, slope)
        products = np.array([product(slope, gradient) for slope in self._slopes])
        if (products < 0).any():
            self._projected += 1
            self._project(gradient, products)
        for slope in self._slopes:
            for table in slope:
                table.clear(table.rows())

    def _project(self, gradient: Gradient, products: Vector) -> None:
        gram = np.array([[product(a, b) for b in self._slopes] for a in self._slopes])
        for weight, slope in zip(cone_weights(gram, products), self._slopes, strict=True):
            if weight:
                for mine, theirs in zip(gradient, slope, strict=True):
                    rows = theirs.rows()
                    mine.add(rows, weight * theirs.values[rows])

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Remember some of what is now old."""
        super().end(model, snapshot)
        self._parts, self._slopes = [], []

    def note(self) -> str:
        """How often the projection was needed."""
        return f"projected {self._projected} of {self._steps} steps" if self._steps else ""

    def working_state(self) -> State:
        """The count of projections."""
        return {"projected": torch.tensor([self._projected, self._steps])}

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self._projected, self._steps = state["projected"].tolist()


def product(one: Gradient, other: Gradient) -> float:
    """⟨g, h⟩ over all tables."""
    return sum(
        float(torch.dot(a.values.flatten(), b.values.flatten()))
        for a, b in zip(one, other, strict=True)
    )


def cone_weights(gram: Matrix, products: Vector) -> Vector:
    """v ≥ 0 (t,) that minimises ½ vᵀAv + vᵀb for a Gram matrix A = GGᵀ (t, t) and b = Gg (t,).

    Then g + Gᵀv is the vector nearest to g whose products with the rows of G are not negative. It
    is an active-set search (Lawson and Hanson, 1974): rows enter one by one where their product is
    most negative, and leave where their weight would be.
    """
    weights = np.zeros(len(products))
    active = np.zeros(len(products), dtype=bool)
    scale = ROUNDING * max(1.0, float(np.abs(products).max(initial=0.0)))
    for _ in range(3 * len(products) + 3):
        slopes = np.where(active, 0.0, gram @ weights + products)
        if slopes.min(initial=0.0) >= -scale:
            break
        active[slopes.argmin()] = True
        while (wanted := _solved(gram, products, active)).min(initial=0.0) < 0:
            leaving = active & (wanted < 0)
            steps = weights[leaving] / (weights[leaving] - wanted[leaving])
            weights = weights + steps.min() * (wanted - weights)
            active &= weights > scale
            weights[~active] = 0.0
        weights = wanted
    return weights


def _solved(gram: Matrix, products: Vector, active: NDArray[np.bool_]) -> Vector:
    """The weights that make the products of the active rows zero; zero for the others."""
    weights = np.zeros(len(products))
    within = gram[np.ix_(active, active)]
    weights[active] = np.linalg.lstsq(within, -products[active], rcond=None)[0]
    return weights
