"""The backend of kernels: rows and ranking on the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from torch import Tensor

from lkge.backends.numba import scan, updates
from lkge.backends.numba.counting import count_above, product_slack
from lkge.backends.numba.ranking import count_ahead
from lkge.backends.torch_backend import ADAGRAD_EPSILON, EPSILON, Counts, Floats, TorchBackend
from lkge.models.parameters import Gradient, RowGradient
from lkge.models.queries import Candidates, GroupedQueries
from lkge.models.scores import RotatE, Score, TransE, TransEL2

BLOCK = 1 << 22
"""Scores that a kernel counts at a time, so that they stay in the cache."""

DISTANCES: Mapping[str, int] = MappingProxyType(
    {TransE.name: scan.L1, TransEL2.name: scan.L2, RotatE.name: scan.MODULI}
)
"""Scores that are distances, and which."""


class NumbaBackend(TorchBackend):
    """`TorchBackend` in kernels; each method is documented there."""

    fused = True

    def adam(
        self,
        table: Tensor,
        gradient: RowGradient,
        first: Tensor,
        second: Tensor,
        steps: Tensor,
        learning_rate: float,
        beta1: float,
        beta2: float,
    ) -> None:
        """See `TorchBackend`."""
        updates.adam(
            table.numpy(), gradient.values.numpy(), first.numpy(), second.numpy(), steps.numpy(),
            gradient.rows().numpy(), learning_rate, beta1, beta2, EPSILON,
        )  # fmt: skip

    def adagrad(
        self, table: Tensor, gradient: RowGradient, sums: Tensor, learning_rate: float
    ) -> None:
        """See `TorchBackend`."""
        updates.adagrad(
            table.numpy(), gradient.values.numpy(), sums.numpy(), gradient.rows().numpy(),
            learning_rate, ADAGRAD_EPSILON,
        )  # fmt: skip

    def adagrad_rows(
        self,
        table: Tensor,
        gradient: Tensor,
        sums: Tensor,
        rows: Tensor,
        learning_rate: float,
        epsilon: float,
    ) -> None:
        """See `TorchBackend`."""
        updates.adagrad_rows(
            table.numpy(), gradient.contiguous().numpy(), sums.numpy(), rows.numpy(),
            learning_rate, epsilon,
        )  # fmt: skip

    def add_and_clear(self, source: RowGradient, into: RowGradient, weight: float) -> None:
        """See `TorchBackend`."""
        updates.add_and_clear(
            source.values.numpy(), source.touched.numpy(), into.values.numpy(),
            into.touched.numpy(), source.rows().numpy(), weight,
        )  # fmt: skip

    def clear(self, gradient: Gradient) -> None:
        """See `TorchBackend`."""
        for part in gradient:
            updates.clear(part.values.numpy(), part.touched.numpy(), part.rows().numpy())

    def rank_counts(
        self,
        score: Score,
        entity: Tensor,
        queries: Tensor,
        grouped: GroupedQueries,
        candidates: Candidates,
    ) -> Counts:
        """See `TorchBackend`. By L1 distances, most of which need not be known exactly, or by the
        scores of all candidates, a block of queries at a time."""
        vectors, rows, targets = queries.numpy(), entity.numpy(), grouped.targets
        if score.name == TransE.name:
            return count_ahead(vectors, grouped.numbers, rows, targets, candidates)
        slack = np.zeros(len(vectors), dtype=np.float32)
        if score.is_bilinear:
            slack = product_slack(vectors, rows)
        above = np.empty((len(targets), len(candidates.limits)), dtype=np.int64)
        equal = np.empty_like(above)
        size = max(1, BLOCK // max(1, len(rows)))
        for start in range(0, len(vectors), size):
            block = slice(start, start + size)
            bounds = grouped.bounds[start : start + size + 1]
            part = slice(bounds[0], bounds[-1])
            above[part], equal[part] = count_above(
                self.scores(score, queries[block], entity), vectors[block], rows, slack[block],
                bounds - bounds[0], targets[part], candidates.at(block),
            )  # fmt: skip
        return above, equal

    def scores(self, score: Score, queries: Tensor, entity: Tensor) -> Floats:
        """See `TorchBackend`; one query is answered on one thread."""
        if score.name not in DISTANCES:
            return super().scores(score, queries, entity)
        kind = DISTANCES[score.name]
        if len(queries) == 1:
            return -scan.distances(kind, queries.numpy(), entity.numpy())[None]
        return -scan.all_distances(kind, queries.numpy(), entity.numpy())
