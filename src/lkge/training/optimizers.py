"""Row-sparse optimizers: only rows with a gradient move, and only their state changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.kernels import updates
from lkge.kernels.rows import RowGradient
from lkge.models.tables import Gradient, Tables

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
ADAGRAD_EPSILON = 1e-10


class Optimizer(Protocol):
    """Moves tables along a gradient; what it gathers on the way is its state."""

    def apply(self, tables: Tables, gradient: Gradient) -> None:
        """Move every touched row."""
        ...

    def state(self) -> dict[str, Tensor]:
        """For a checkpoint: tensors with a row for each row of the tables."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        ...


class RowAdam:
    """Adam with the usual constants; each row's bias correction counts its own updates, so that a
    table whose every row is touched at every step follows dense Adam."""

    def __init__(self, tables: Tables, learning_rate: float, fused: bool) -> None:
        self.learning_rate = learning_rate
        self.fused = fused
        self.first = tables.map(torch.zeros_like)
        self.second = tables.map(torch.zeros_like)
        self.steps = tables.map(
            lambda table: torch.zeros(len(table), dtype=torch.int32, device=table.device)
        )

    def apply(self, tables: Tables, gradient: Gradient) -> None:
        """θ -= η·m̂ / (√v̂ + ε) on every touched row."""
        update = self._update_fused if self.fused else self._update_plain
        for parts in zip(tables, gradient, self.first, self.second, self.steps, strict=True):
            update(*parts)

    def _update_fused(
        self, table: Tensor, gradient: RowGradient, first: Tensor, second: Tensor, steps: Tensor
    ) -> None:
        updates.adam(
            table.numpy(), gradient.values.numpy(), first.numpy(), second.numpy(), steps.numpy(),
            gradient.rows().numpy(), self.learning_rate, BETA1, BETA2, EPSILON,
        )  # fmt: skip

    def _update_plain(
        self, table: Tensor, gradient: RowGradient, first: Tensor, second: Tensor, steps: Tensor
    ) -> None:
        rows = gradient.rows()
        values = gradient.values[rows]
        steps[rows] += 1
        first[rows] = BETA1 * first[rows] + (1 - BETA1) * values
        second[rows] = BETA2 * second[rows] + (1 - BETA2) * values.square()
        count = steps[rows].double()[:, None]
        rate = (self.learning_rate / (1 - BETA1**count)).float()
        root = (1 / (1 - BETA2**count).sqrt()).float()
        table[rows] -= rate * first[rows] / (second[rows].sqrt() * root + EPSILON)

    def state(self) -> dict[str, Tensor]:
        """Moments and counts, for a checkpoint."""
        return self.first.named("first") | self.second.named("second") | self.steps.named("steps")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.first = Tables.from_named(state, "first")
        self.second = Tables.from_named(state, "second")
        self.steps = Tables.from_named(state, "steps")


class RowAdagrad:
    """Adagrad, its sums of squares beginning at zero: a coordinate with much evidence moves little,
    a new one moves by the learning rate."""

    def __init__(self, tables: Tables, learning_rate: float, fused: bool) -> None:
        self.learning_rate = learning_rate
        self.fused = fused
        self.sums = tables.map(torch.zeros_like)

    def apply(self, tables: Tables, gradient: Gradient) -> None:
        """θ -= η·g / (√Σg² + ε) on every touched row."""
        update = self._update_fused if self.fused else self._update_plain
        for parts in zip(tables, gradient, self.sums, strict=True):
            update(*parts)

    def _update_fused(self, table: Tensor, gradient: RowGradient, sums: Tensor) -> None:
        updates.adagrad(
            table.numpy(), gradient.values.numpy(), sums.numpy(), gradient.rows().numpy(),
            self.learning_rate, ADAGRAD_EPSILON,
        )  # fmt: skip

    def _update_plain(self, table: Tensor, gradient: RowGradient, sums: Tensor) -> None:
        touched = gradient.rows()
        rows = touched if len(touched) < len(table) else slice(None)
        values = gradient.values[rows]
        sums[rows] += values.square()
        table[rows] -= self.learning_rate * values / (sums[rows].sqrt() + ADAGRAD_EPSILON)

    def state(self) -> dict[str, Tensor]:
        """The sums, for a checkpoint."""
        return self.sums.named("sums")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.sums = Tables.from_named(state, "sums")


def optimizer_of(config: RunConfig, tables: Tables, fused: bool) -> Optimizer:
    """The optimizer of a run, for these tables."""
    kind = RowAdagrad if config.training.optimizer == "adagrad" else RowAdam
    return kind(tables, config.training.learning_rate, fused)


def grown(state: Mapping[str, Tensor], fresh: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of an optimizer, with the rows of a fresh one for what has come since."""
    return {
        name: torch.cat([state[name].to(rows.device), rows[len(state[name]) :]])
        if name in state
        else rows
        for name, rows in fresh.items()
    }


def clear(gradient: Gradient, fused: bool) -> None:
    """Make the gradient zero again, at the cost of what was touched."""
    for part in gradient:
        rows = part.rows()
        if fused:
            updates.clear(part.values.numpy(), part.touched.numpy(), rows.numpy())
        else:
            part.clear(rows)
