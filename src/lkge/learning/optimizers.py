"""Row-sparse optimizers: only rows with a gradient move, and only their state changes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from lkge.kernels import updates
from lkge.kernels.rows import RowGradient
from lkge.models.tables import Gradient, Tables

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


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


def clear(gradient: Gradient, fused: bool) -> None:
    """Make the gradient zero again, at the cost of what was touched."""
    for part in gradient:
        rows = part.rows()
        if fused:
            updates.clear(part.values.numpy(), part.touched.numpy(), rows.numpy())
        else:
            part.clear(rows)
