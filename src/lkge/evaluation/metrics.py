"""Metrics of link prediction and of lifelong learning.

h[i, j] is the accuracy of model M_i (after snapshot i) on the test set Q_j of snapshot j.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PROTOCOLS = ("paper", "current")


@dataclass(frozen=True)
class Accuracy:
    """MRR and Hits@k, each a mean over `queries` queries (two queries per test fact)."""

    mrr: float
    hits1: float
    hits3: float
    hits10: float
    queries: int


def mean_reciprocal_rank(ranks: NDArray[np.float64]) -> float:
    """MRR = mean of 1/rank over `ranks` (n,); nan if n = 0."""
    return float(np.mean(1 / ranks)) if len(ranks) else math.nan


def accuracy(ranks: NDArray[np.float64]) -> Accuracy:
    """MRR and Hits@1, 3, 10 of `ranks` (n,). Hits@k is the fraction of ranks ≤ k."""

    def hits(k: int) -> float:
        return float(np.mean(ranks <= k)) if len(ranks) else math.nan

    return Accuracy(mean_reciprocal_rank(ranks), hits(1), hits(3), hits(10), len(ranks))


def union(parts: Iterable[Accuracy]) -> Accuracy:
    """Accuracy over the union of the queries of `parts`: each query has the same weight."""
    parts = list(parts)
    total = sum(part.queries for part in parts)

    def mean(metric: str) -> float:
        weighted = sum(getattr(part, metric) * part.queries for part in parts if part.queries)
        return weighted / total if total else math.nan

    return Accuracy(mean("mrr"), mean("hits1"), mean("hits3"), mean("hits10"), total)


@dataclass(frozen=True)
class ProtocolResult:
    """`matrix[i][j]` = h[i, j] for j ≤ i. `forward[i]` = h[i, i+1]: M_i on Q_{i+1} before training
    on snapshot i+1, with rows for its new entities and relations."""

    matrix: tuple[tuple[Accuracy, ...], ...] = ()
    forward: tuple[Accuracy, ...] = ()

    def after(self, i: int) -> Accuracy:
        """M_i on the union of Q_0 … Q_i."""
        return union(self.matrix[i])

    @property
    def final(self) -> Accuracy:
        """The last model on the union of all test sets: the paper's Table 2."""
        return self.after(len(self.matrix) - 1)

    @property
    def fwt(self) -> float:
        """Forward transfer: FWT = 1/(n-1) Σ_{i=2..n} h_{i-1,i}; nan if n < 2."""
        return _mean([cell.mrr for cell in self.forward if cell.queries])

    @property
    def bwt(self) -> float:
        """Backward transfer: BWT = 1/(n-1) Σ_{i=1..n-1} (h_{n,i} - h_{i,i}); nan if n < 2."""
        return _mean(
            [
                self.matrix[-1][i].mrr - self.matrix[i][i].mrr
                for i in range(len(self.matrix) - 1)
                if self.matrix[i][i].queries
            ]
        )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
