"""A quadratic pull of rows to where they were: Σ w (x - c)²."""

from __future__ import annotations

from dataclasses import dataclass

from lkge.backends import Backend
from lkge.models.parameters import Gradient, Parameters


@dataclass(frozen=True)
class Anchor:
    """Centres (k, d) and weights, (k, 1) a row or (k, d) a coordinate, for the first k rows."""

    centre: Parameters
    weight: Parameters

    def add_gradient(self, tables: Parameters, gradient: Gradient, backend: Backend) -> float:
        """Add the gradient on the touched rows among the first k; return their loss."""
        return sum(
            backend.regularize(*parts)
            for parts in zip(tables, self.centre, self.weight, gradient, strict=True)
        )


def held(tables: Parameters, weight: Parameters, strength: float) -> Anchor | None:
    """The first rows of `tables` held where they are by strength·weight; none at strength zero."""
    if not strength or not len(weight.entity):
        return None
    centre = tables.map(lambda table, like: table[: len(like)].clone(), weight)
    return Anchor(centre, weight.map(lambda values: strength * values))
