"""Accuracy from ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lkge.evaluation.results import Accuracy


def mean_reciprocal_rank(ranks: NDArray[np.float64]) -> float:
    """MRR = mean of 1/rank; nan without ranks."""
    return float(np.mean(1 / ranks)) if len(ranks) else float("nan")


def accuracy(ranks: NDArray[np.float64]) -> Accuracy:
    """MRR and Hits@1, 3, 10 of `ranks` (n,). Hits@k is the share of ranks ≤ k."""

    def hits(k: int) -> float:
        return float(np.mean(ranks <= k)) if len(ranks) else float("nan")

    return Accuracy(mean_reciprocal_rank(ranks), hits(1), hits(3), hits(10), len(ranks))
