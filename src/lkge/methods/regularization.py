"""Quadratic regularization towards old parameters, Σ w (x - c)², and the methods that have it."""

from __future__ import annotations

from dataclasses import dataclass

from lkge.backends import Backend
from lkge.config import MethodConfig, RunConfig, setting
from lkge.methods.base import Method
from lkge.models.model import Model
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


class RegularizedMethod(Method):
    """Pulls rows towards their old values, by weights that a subclass sets in `begin`."""

    keeps = "one number a coordinate"
    supports_partial_updates = True

    class Config(MethodConfig):
        """The settings of a method with a pull towards old rows."""

        regularization_weight: float = setting(
            0.01, "α: weight of the pull towards the old embeddings.",
            ge=0, grid=(0.01, 0.1, 1.0),
        )  # fmt: skip

    config: Config

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
