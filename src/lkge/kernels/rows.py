"""A gradient as rows and values: what a step has not touched costs nothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lkge.kernels.updates import add_some, pour


@dataclass(frozen=True)
class RowGradient:
    """The gradient of one table.

    `values` has the table's shape and is zero on every row outside `touched`, a byte per row.
    Fresh zeros take no memory until they are written, so a large table costs only its touched
    pages.
    """

    values: Tensor
    touched: Tensor

    @classmethod
    def like(cls, table: Tensor) -> RowGradient:
        """No row touched yet."""
        return cls(
            values=torch.zeros_like(table),
            touched=torch.zeros(len(table), dtype=torch.uint8, device=table.device),
        )

    def rows(self) -> Tensor:
        """Touched rows in ascending order, int64, shape (u,)."""
        return self.touched.nonzero().squeeze(1)

    def add(self, rows: Tensor, values: Tensor, weight: float = 1.0) -> None:
        """Add `weight` times `values` (u, d) to distinct `rows` (u,) and mark them touched."""
        self.values.index_add_(0, rows, values, alpha=weight)
        self.touched[rows] = 1

    def add_fused(self, rows: Tensor, values: Tensor) -> None:
        """`add` on CPU, by all threads."""
        add_some(self.values.numpy(), self.touched.numpy(), rows.numpy(), values.numpy())

    def scale(self, factor: float) -> None:
        """Multiply the touched rows; where they are many, all of them, as the others are zero."""
        rows = self.rows()
        if 4 * len(rows) >= len(self.values):
            self.values.mul_(factor)
        else:
            self.values[rows] *= factor

    def pour(self, into: RowGradient, weight: float, fused: bool) -> None:
        """Add `weight` times this to another gradient of the same table; nothing is left here."""
        rows = self.rows()
        if fused:
            pour(
                self.values.numpy(), self.touched.numpy(), into.values.numpy(),
                into.touched.numpy(), rows.numpy(), weight,
            )  # fmt: skip
        else:
            into.add(rows, self.values[rows], weight)
            self.clear(rows)

    def clear(self, rows: Tensor) -> None:
        """Forget the given rows; with `self.rows()` the gradient is zero again."""
        self.values[rows] = 0.0
        self.touched[rows] = 0
