"""A quadratic pull of rows to where they were: Σ w (x - c)²."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lkge.kernels.rows import RowGradient
from lkge.kernels.updates import pull
from lkge.models.tables import Gradient, Tables


@dataclass(frozen=True)
class Anchor:
    """Centres (k, d) and weights, (k, 1) a row or (k, d) a coordinate, for the first k rows."""

    centre: Tables
    weight: Tables

    def add_gradient(self, tables: Tables, gradient: Gradient, fused: bool) -> float:
        """Add the gradient on the touched rows among the first k; return their loss."""
        return sum(
            _pull(*parts, fused)
            for parts in zip(tables, self.centre, self.weight, gradient, strict=True)
        )


def held(tables: Tables, weight: Tables, strength: float) -> Anchor | None:
    """The first rows of `tables` held where they are by strength·weight; none at strength zero."""
    if not strength or not len(weight.entity):
        return None
    centre = tables.map(lambda table, like: table[: len(like)].clone(), weight)
    return Anchor(centre, weight.map(lambda values: strength * values))


def _pull(
    table: Tensor, centre: Tensor, weight: Tensor, gradient: RowGradient, fused: bool
) -> float:
    rows = gradient.rows()
    rows = rows[rows < len(centre)]
    if fused:
        return pull(
            table.numpy(), centre.numpy(), weight.numpy(), rows.numpy(), gradient.values.numpy()
        )
    difference = table[rows] - centre[rows]
    gradient.add(rows, 2 * weight[rows] * difference)
    return float((weight[rows] * difference.square()).sum(dtype=torch.float64))
