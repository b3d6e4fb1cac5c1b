"""Methods with a memory of old facts, EMR and GEM, and what they share with DiCGRL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.batches import Batch, batches
from lkge.data.snapshots import Facts, Snapshot, among, no_facts, with_inverses
from lkge.methods.base import Method, State, register
from lkge.methods.memory_settings import MemoryConfig
from lkge.methods.profiles import FACTS
from lkge.models.model import REMEMBER, REPLAY, Model
from lkge.models.parameters import Gradient, host

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
ROUNDING = 1e-12


@dataclass(frozen=True)
class Memory:
    """Facts (k, 3) without inverses, and the snapshot that each came from (k,)."""

    facts: Facts = field(default_factory=no_facts)
    since: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.facts)

    def refreshed(self, snapshot: Snapshot, size: int, generator: np.random.Generator) -> Memory:
        """Room for `size` facts: new ones, drawn at random, fill what is free, and replace as many
        of the others as it takes to have half of the room."""
        taken = min(len(snapshot.train), max(size - len(self), size // 2))
        kept = np.sort(generator.permutation(len(self))[: size - taken])
        drawn = np.sort(generator.permutation(len(snapshot.train))[:taken])
        return Memory(
            np.concatenate([self.facts[kept], snapshot.train[drawn]]),
            np.append(self.since[kept], np.full(taken, snapshot.index, dtype=np.int32)),
        )

    def parts(self) -> list[Facts]:
        """The facts of each past snapshot that is still remembered, oldest first."""
        return [self.facts[self.since == index] for index in np.unique(self.since)]


class MemoryMethod(Method):
    """Keeps `memory_size` facts; each snapshot replaces half of them with its own."""

    keeps = FACTS

    Config = MemoryConfig
    config: MemoryConfig

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self.memory = Memory()

    def retract(self, facts: Facts) -> None:
        """Remove them from the memory."""
        kept = ~among(self.memory.facts, facts)
        self.memory = Memory(self.memory.facts[kept], self.memory.since[kept])

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Keep some of the facts that are now old."""
        generator = self.stream(REMEMBER, snapshot.index)
        self.memory = self.memory.refreshed(snapshot, self.config.memory_size, generator)

    def state(self) -> State:
        """The memory."""
        facts, since = self.memory.facts, self.memory.since
        return {"facts": torch.from_numpy(facts), "since": torch.from_numpy(since)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self.memory = Memory(state["facts"].numpy(), state["since"].numpy())


@register
class Emr(MemoryMethod):
    """EMR: learn some old facts again, together with the new ones (Wang et al., 2019)."""

    name = "emr"

    def facts(self, snapshot: Snapshot) -> Facts:
        """D_i ∪ memory; nothing where D_i is empty."""
        remembered = self.memory.facts if len(snapshot.train) else no_facts()
        return np.concatenate([snapshot.train, remembered])


@register
class Gem(MemoryMethod):
    """GEM: no step may raise the loss on remembered facts (Lopez-Paz and Ranzato, 2017).

    The memory is divided by the snapshots its facts came from. With g the gradient of a step and G
    the gradients on the remembered facts of each past snapshot, the step follows

        g̃ = argmin ‖g̃ - g‖²  so that  G g̃ ≥ 0,   which is   g̃ = g + Gᵀv,
        v = argmin ½ vᵀGGᵀv + vᵀGg  with  v ≥ 0.

    The corruptions of remembered facts are drawn once a snapshot.
    """

    name = "gem"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._parts: list[Batch] = []
        self._slopes: list[Gradient] = []
        self._projected = self._steps = 0

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """A batch and a gradient for each part of the memory."""
        negatives, shared_by = model.negatives, self.run.training.negatives_shared_by
        entities, generator = snapshot.num_entities, self.stream(REPLAY, snapshot.index)
        self._parts = []
        for facts in self.memory.parts():
            edges = with_inverses(facts)
            self._parts += batches(edges, len(edges), negatives, entities, generator, shared_by)
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
        self._projected, self._steps = host(state["projected"]).tolist()


def product(one: Gradient, other: Gradient) -> float:
    """⟨g, h⟩ over all tables."""
    pairs = zip(one, other, strict=True)
    return sum(float(torch.dot(a.values.flatten(), b.values.flatten())) for a, b in pairs)


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
