"""Penalties on the rows of a batch: N3 (Lacroix et al., 2018) and L2.

    mean over facts of Σ_{x ∈ {h, r, t}} (n3 · Σ |x_k|³ + l2 · Σ |x_k|²),

|x_k| the modulus of a coordinate where coordinates are complex. The fewer facts tell of a row, the
more n3 it takes to keep it from learning them by heart, and the more do, the less (`fitted`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lkge.data.batches import Batch
from lkge.kernels.penalties import penalise, tally
from lkge.kernels.rows import RowGradient
from lkge.models.coordinates import moduli
from lkge.models.scores import Score
from lkge.models.tables import Gradient, Tables

SPARSE, DENSE = 20.0, 30.0
"""Facts of an entity, in both directions, between which n3 is as it was given."""
POWER = 0.68
MOST = 2.0


class RowPenalty:
    """A row that several facts have counts once for each; relations weigh like entities."""

    def __init__(self, score: Score, n3: float, l2: float, fused: bool = False) -> None:
        self.reals = score.reals
        self.fused = fused
        self.n3 = n3
        self.l2 = l2

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts = torch.from_numpy(batch.facts).long().to(tables.entity.device)
        return self._add(tables.entity, facts[:, (0, 2)], len(batch), gradient.entity) + self._add(
            tables.relation, facts[:, 1], len(batch), gradient.relation
        )

    def _add(self, table: Tensor, used: Tensor, facts: int, gradient: RowGradient) -> float:
        """The part of one table."""
        add, count = (self._add_fused, _tally) if self.fused else (self._add_plain, _tally_plain)
        rows, counts = count(used, len(table))
        weights = counts / facts
        gradient.touched[rows] = 1
        return float((weights * add(table, rows, weights, gradient.values)).sum())

    def _add_plain(self, table: Tensor, rows: Tensor, weights: Tensor, gradient: Tensor) -> Tensor:
        """Add the gradient of distinct rows (u,), ∂|x|³/∂x = 3 |x| x; the loss of each, (u,)."""
        values = table[rows]
        sizes = moduli(values, self.reals)
        factors = (3 * self.n3 * sizes + 2 * self.l2) * weights[:, None]
        gradient[rows] += factors.repeat(1, self.reals) * values
        return self.n3 * sizes.pow(3).sum(1) + self.l2 * sizes.square().sum(1)

    def _add_fused(self, table: Tensor, rows: Tensor, weights: Tensor, gradient: Tensor) -> Tensor:
        """`_add_plain` in one pass over the rows."""
        losses = penalise(
            table.numpy(), rows.numpy(), weights.numpy(), self.reals, self.n3, self.l2,
            gradient.numpy(),
        )  # fmt: skip
        return torch.from_numpy(losses)


def _tally(used: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """The distinct rows, (u,), and how often each is used."""
    rows, counts = tally(used.flatten().numpy(), num_rows)
    return torch.from_numpy(rows), torch.from_numpy(counts)


def _tally_plain(used: Tensor, num_rows: int) -> tuple[Tensor, Tensor]:
    """`_tally` in the order of rows."""
    rows, counts = torch.unique(used, return_counts=True)
    return rows, counts


def fitted(n3: float, facts: float) -> float:
    """n3 · min(2, (20 / k)^0.68) where an entity has k < 20 `facts` in the mean, and
    n3 · (30 / k)^0.68 where it has k > 30."""
    times: float = (max(1.0, SPARSE / facts) * min(1.0, DENSE / facts)) ** POWER
    return n3 * min(MOST, times)
