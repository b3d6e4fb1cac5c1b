"""Regularization towards old parameters, Σ w (θ - θ*)²: the penalty, EWC and SI.

θ* are the tables at the end of the last snapshot. Only rows that were learned are held.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from lkge.backends import Backend
from lkge.config import RunConfig
from lkge.data.batches import batches
from lkge.data.snapshots import Snapshot, with_inverses
from lkge.methods.base import Method, State, register
from lkge.methods.profiles import ONE_NUMBER
from lkge.methods.regularization_settings import RegularizedConfig, SiConfig
from lkge.models.model import INFORM, Model
from lkge.models.parameters import Gradient, Parameters, no_parameters


@dataclass(frozen=True)
class QuadraticPenalty:
    """Centres (k, d) and weights, (k, 1) per row or (k, d) per coordinate, for the first k rows."""

    centre: Parameters
    weight: Parameters

    def add_gradient(self, tables: Parameters, gradient: Gradient, backend: Backend) -> float:
        """Add the gradient on the touched rows among the first k; return their loss."""
        parts = zip(tables, self.centre, self.weight, gradient, strict=True)
        return sum(backend.regularize(*part) for part in parts)


class RegularizedMethod(Method):
    """Pulls rows towards their old values, by weights that a subclass sets in `begin`."""

    keeps = ONE_NUMBER
    supports_partial_updates = True

    Config = RegularizedConfig
    config: RegularizedConfig

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._penalty: QuadraticPenalty | None = None

    def hold(self, tables: Parameters, weight: Parameters) -> None:
        """From now on leaving the current values of the first rows costs α·weight."""
        strength, self._penalty = self.config.regularization_weight, None
        if strength and len(weight.entity):
            centre = tables.map(lambda table, like: table[: len(like)].clone(), weight)
            self._penalty = QuadraticPenalty(centre, weight.map(lambda w: strength * w))

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """α Σ w (θ - θ*)² on the touched rows."""
        if self._penalty is None:
            return 0.0
        return self._penalty.add_gradient(model.tables, gradient, model.backend)


@register
class Ewc(RegularizedMethod):
    """EWC: hold each coordinate by its Fisher information (Kirkpatrick et al., 2017).

        L = L_new + α Σ F (θ - θ*)²,   F = Σ_{j < i} Σ_{x ∈ D_j ∪ D_j⁻¹} (∂ℓ(x)/∂θ)²,

    ℓ(x) the loss of one fact at the end of its snapshot.
    """

    name = "ewc"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._fisher = no_parameters(run.model.dim, self.device)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Old rows are held where they are."""
        self.hold(model.tables, self._fisher)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Add the squared gradients of each new fact."""
        self._fisher = self._fisher.grown_to(model.tables.map(torch.zeros_like))
        edges, entities = with_inverses(snapshot.train), snapshot.num_entities
        size, shared_by = self.run.training.batch_size, self.run.training.negatives_shared_by
        generator = self.stream(INFORM, snapshot.index)
        for batch in batches(edges, size, model.negatives, entities, generator, shared_by):
            model.loss.add_squares(model.tables, batch, self._fisher)

    def state(self) -> State:
        """F for every row."""
        return self._fisher.named("fisher")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._fisher = Parameters.from_named(state, "fisher").to(self.device)


class Moment(NamedTuple):
    """What a step found in one table: the touched rows, their values, and the gradient of L_new."""

    rows: Tensor
    values: Tensor
    slopes: Tensor


@register
class Si(RegularizedMethod):
    """SI: hold each coordinate by how much its path lowered the loss (Zenke et al., 2017).

        ω = Σ_steps -g·Δθ,   Ω += max(0, ω) / ((θ_end - θ_start)² + ξ),
        L = L_new + α Σ Ω (θ - θ*)²,

    g the gradient of L_new alone, Δθ the step that was taken.
    """

    name = "si"

    Config = SiConfig
    config: SiConfig

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._importance = no_parameters(run.model.dim, self.device)
        self._start = self._path = self._importance
        self._moments: list[Moment] = []

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """A new path starts here; old rows are held where they are."""
        self._start = model.tables.clone()
        self._path = model.tables.map(torch.zeros_like)
        self.hold(self._start, self._importance)

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Note the gradient of L_new, then add that of α Σ Ω (θ - θ*)² on the touched rows."""
        self._moments = []
        for table, part in zip(model.tables, gradient, strict=True):
            rows = part.rows()
            self._moments.append(Moment(rows, table[rows], part.values[rows]))
        return super().penalty(model, gradient)

    def after_step(self, model: Model, gradient: Gradient) -> None:
        """ω -= g·Δθ."""
        for path, table, moment in zip(self._path, model.tables, self._moments, strict=True):
            path[moment.rows] -= moment.slopes * (table[moment.rows] - moment.values)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Ω += max(0, ω) / ((θ_end - θ_start)² + ξ)."""
        weigh = partial(importance, damping=self.config.damping)
        gained = self._path.map(weigh, model.tables, self._start)
        before = self._importance.grown_to(gained.map(torch.zeros_like))
        self._importance = before.map(torch.add, gained)

    def state(self) -> State:
        """Ω for every row."""
        return self._importance.named("importance")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._importance = Parameters.from_named(state, "importance").to(self.device)

    def working_state(self) -> State:
        """ω so far."""
        return self._path.named("path")

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        self._path = Parameters.from_named(state, "path")


def importance(path: Tensor, end: Tensor, start: Tensor, damping: float) -> Tensor:
    """max(0, ω) / ((θ_end - θ_start)² + ξ), element by element."""
    return path.clamp(min=0) / ((end - start).square() + damping)
