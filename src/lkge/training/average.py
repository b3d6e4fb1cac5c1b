"""A running mean of tables that forgets its beginning (Shamir and Zhang, 2013).

    θ̄_t = θ̄_{t-1} + (θ_t - θ̄_{t-1}) · (1 + η) / (t + η),

so that about the last t / (1 + η) of t steps count: the noise of single steps is gone, and no
length has to be chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from lkge.models.parameters import Parameters


@dataclass
class Average:
    """The mean of tables after each step."""

    tables: Parameters
    decay: float

    @classmethod
    def of(cls, tables: Parameters, decay: float) -> Average:
        """Before the first step."""
        return cls(tables.clone(), decay)

    def update(self, tables: Parameters, step: int) -> None:
        """What the `step`-th step has made, from 1."""
        weight = (1 + self.decay) / (step + self.decay)
        for mean, table in zip(self.tables, tables, strict=True):
            mean.lerp_(table, weight)
