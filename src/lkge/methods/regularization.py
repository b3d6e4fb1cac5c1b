"""Quadratic regularization towards old parameters: Σ w (x - c)²."""

from __future__ import annotations

from dataclasses import dataclass

from lkge.backends import Backend
from lkge.models.parameters import Gradient, Parameters


@dataclass(frozen=True)
class QuadraticPenalty:
    """Centres (k, d) and weights, (k, 1) per row or (k, d) per coordinate, for the first k rows."""

    centre: Parameters
    weight: Parameters

    def add_gradient(self, tables: Parameters, gradient: Gradient, backend: Backend) -> float:
        """Add the gradient on the touched rows among the first k; return their loss."""
        return sum(
            backend.regularize(*parts)
            for parts in zip(tables, self.centre, self.weight, gradient, strict=True)
        )


def penalty_at(tables: Parameters, weight: Parameters, strength: float) -> QuadraticPenalty | None:
    """The penalty strength·weight on leaving the current values of the first rows; none at
    strength zero."""
    if not strength or not len(weight.entity):
        return None
    centre = tables.map(lambda table, like: table[: len(like)].clone(), weight)
    return QuadraticPenalty(centre, weight.map(lambda values: strength * values))
