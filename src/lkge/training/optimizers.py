"""Row-sparse optimizers: only rows with a gradient move, and only their state changes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch

from lkge.backends import Backend
from lkge.config import RunConfig
from lkge.models.parameters import Gradient, Parameters

Tensors = Mapping[str, torch.Tensor]

EVERY_STEP_BELOW = 20_000
"""Up to so many rows the mean takes every step."""
AVERAGED_STEPS = 32
"""Steps of an epoch that it takes otherwise, at least."""


class Optimizer(ABC):
    """Moves tables along a gradient; what it gathers on the way is its state."""

    learning_rate: float
    gathers: ClassVar[tuple[str, ...]]
    """The attributes that are its state: parameters with a row for each row of the tables."""

    @abstractmethod
    def apply(self, tables: Parameters, gradient: Gradient) -> None:
        """Move every touched row."""

    def state(self) -> dict[str, torch.Tensor]:
        """For a checkpoint."""
        parts = [getattr(self, name).named(name) for name in self.gathers]
        return {name: tensor for part in parts for name, tensor in part.items()}

    def load_state(self, state: Tensors) -> None:
        """Take back what `state` gave."""
        for name in self.gathers:
            setattr(self, name, Parameters.from_named(state, name))


class RowAdam(Optimizer):
    """Adam with the usual constants; each row's bias correction counts its own updates, so that a
    table whose every row is touched at every step follows dense Adam."""

    gathers = ("first", "second", "steps")

    def __init__(
        self,
        tables: Parameters,
        learning_rate: float,
        backend: Backend,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        self.learning_rate, self.backend, self.betas = learning_rate, backend, betas
        self.first = tables.map(torch.zeros_like)
        self.second = tables.map(torch.zeros_like)
        self.steps = tables.map(
            lambda table: torch.zeros(len(table), dtype=torch.int32, device=table.device)
        )

    def apply(self, tables: Parameters, gradient: Gradient) -> None:
        """θ -= η·m̂ / (√v̂ + ε) on every touched row."""
        for parts in zip(tables, gradient, self.first, self.second, self.steps, strict=True):
            self.backend.adam(*parts, self.learning_rate, *self.betas)


class RowAdagrad(Optimizer):
    """Adagrad, its sums of squares beginning at zero: a coordinate with much evidence moves little,
    a new one moves by the learning rate."""

    gathers = ("sums",)

    def __init__(self, tables: Parameters, learning_rate: float, backend: Backend) -> None:
        self.learning_rate, self.backend = learning_rate, backend
        self.sums = tables.map(torch.zeros_like)

    def apply(self, tables: Parameters, gradient: Gradient) -> None:
        """θ -= η·g / (√Σg² + ε) on every touched row."""
        for parts in zip(tables, gradient, self.sums, strict=True):
            self.backend.adagrad(*parts, self.learning_rate)


def optimizer_of(config: RunConfig, tables: Parameters, backend: Backend) -> Optimizer:
    """The optimizer of a run, for these tables."""
    training = config.training
    if training.optimizer == "adagrad":
        return RowAdagrad(tables, training.learning_rate, backend)
    betas = (training.adam_beta1, training.adam_beta2)
    return RowAdam(tables, training.learning_rate, backend, betas)


def grown(state: Tensors, fresh: Tensors) -> dict[str, torch.Tensor]:
    """The state of an optimizer, with the rows of a fresh one for what has come since."""
    result = dict(fresh)
    for name in fresh.keys() & state.keys():
        old, rows = state[name], fresh[name]
        result[name] = torch.cat([old.to(rows.device), rows[len(old) :]])
    return result


def averaging_interval(rows: int, steps: int) -> int:
    """A running mean over all rows costs a pass over them: one in so many steps of an epoch has it
    in a large table."""
    return 1 if rows <= EVERY_STEP_BELOW else max(1, steps // AVERAGED_STEPS)


class Average:
    """A running mean of parameters that forgets its beginning (Shamir and Zhang, 2013).

        θ̄_t = θ̄_{t-1} + (θ_t - θ̄_{t-1}) · (1 + η) / (t + η),

    so that about the last t / (1 + η) of t steps count. Of each `interval` steps it takes one.
    """

    def __init__(self, tables: Parameters, decay: float, interval: int = 1) -> None:
        self.tables, self.decay, self.interval = tables.clone(), decay, interval

    def update(self, tables: Parameters, step: int) -> None:
        """Add the parameters after step number `step`, from 1."""
        step, rest = divmod(step, self.interval)
        if rest:
            return
        weight = (1 + self.decay) / (step + self.decay)
        for mean, table in zip(self.tables, tables, strict=True):
            mean.lerp_(table, weight)
