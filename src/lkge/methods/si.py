"""SI: hold each coordinate by how much its path lowered the loss (Zenke et al., 2017).

    ω = Σ_steps -g·Δθ,   Ω += max(0, ω) / ((θ_end - θ_start)² + ξ),
    L = L_new + α Σ Ω (θ - θ*)²,

g the gradient of L_new alone, Δθ the step that was taken, θ* the tables of the last snapshot.
"""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from lkge.config import RunConfig, setting
from lkge.data.snapshots import Snapshot
from lkge.methods.base import State, register
from lkge.methods.regularization import RegularizedMethod
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters, RowGradient, no_parameters


class Moment(NamedTuple):
    """What a step found in one table: the touched rows, their values, and the gradient of L_new."""

    rows: Tensor
    values: Tensor
    slopes: Tensor


@register
class Si(RegularizedMethod):
    """The path integral of a snapshot becomes importance when the snapshot is learned."""

    name = "si"
    summary = "hold each coordinate by what its path gained"

    class Config(RegularizedMethod.Config):
        """The settings of SI."""

        damping: float = setting(
            1e-3, "ξ: bounds the importance of a coordinate that hardly moved.", gt=0
        )

    config: Config

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._importance = no_parameters(run.model.dim, run.training.device)
        self._start = self._path = self._importance
        self._moments: list[Moment] = []

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """A new path starts here; old rows are held where they are."""
        self._start = model.tables.clone()
        self._path = model.tables.map(torch.zeros_like)
        self.hold(self._start, self._importance)

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Note the gradient of L_new, then add that of α Σ Ω (θ - θ*)² on the touched rows."""
        self._moments = [_moment(*parts) for parts in zip(model.tables, gradient, strict=True)]
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
        """See `Method`."""
        self._importance = Parameters.from_named(state, "importance")

    def working_state(self) -> State:
        """ω so far."""
        return self._path.named("path")

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self._path = Parameters.from_named(state, "path")


def importance(path: Tensor, end: Tensor, start: Tensor, damping: float) -> Tensor:
    """max(0, ω) / ((θ_end - θ_start)² + ξ), element by element."""
    return path.clamp(min=0) / ((end - start).square() + damping)


def _moment(table: Tensor, gradient: RowGradient) -> Moment:
    rows = gradient.rows()
    return Moment(rows, table[rows], gradient.values[rows])
