"""The backend of kernels: rows and ranking on the CPU."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from lkge.backends.numba import counting, distance, ranking, updates
from lkge.backends.torch_backend import ADAGRAD_EPSILON, EPSILON, Counts, TorchBackend
from lkge.data.array_types import Floats
from lkge.models.parameters import Gradient, RowGradient
from lkge.models.queries import Candidates, GroupedQueries
from lkge.models.scores import RotatE, Score, TransE, TransEL2

BLOCK = 1 << 22
"""Scores that a kernel counts at a time, so that they stay in the cache."""

DISTANCES: Mapping[str, int] = {
    TransE.name: distance.L1,
    TransEL2.name: distance.L2,
    RotatE.name: distance.MODULI,
}
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
        updates.adam(
            table.numpy(), gradient.values.numpy(), first.numpy(), second.numpy(), steps.numpy(),
            gradient.rows().numpy(), learning_rate, beta1, beta2, EPSILON,
        )  # fmt: skip

    def adagrad(
        self, table: Tensor, gradient: RowGradient, sums: Tensor, learning_rate: float
    ) -> None:
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
        updates.adagrad_rows(
            table.numpy(), gradient.contiguous().numpy(), sums.numpy(), rows.numpy(),
            learning_rate, epsilon,
        )  # fmt: skip

    def add_and_clear(self, source: RowGradient, into: RowGradient, weight: float) -> None:
        updates.add_and_clear(
            source.values.numpy(), source.touched.numpy(), into.values.numpy(),
            into.touched.numpy(), source.rows().numpy(), weight,
        )  # fmt: skip

    def clear(self, gradient: Gradient) -> None:
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
        """By L1 distances, most of which need not be known exactly, or by the scores of all
        candidates, a block of queries at a time."""
        vectors, rows, targets = queries.numpy(), entity.numpy(), grouped.targets
        if score.name == TransE.name:
            return ranking.count_ahead(vectors, grouped.numbers, rows, targets, candidates)
        slack = np.zeros(len(vectors), dtype=np.float32)
        if score.is_bilinear:
            slack = counting.product_slack(vectors, rows)
        above, equal = np.empty((2, len(targets), len(candidates.limits)), dtype=np.int64)
        size = max(1, BLOCK // max(1, len(rows)))
        for start in range(0, len(vectors), size):
            block = slice(start, start + size)
            bounds = grouped.bounds[start : start + size + 1]
            part = slice(bounds[0], bounds[-1])
            above[part], equal[part] = counting.count_above(
                self.scores(score, queries[block], entity), vectors[block], rows, slack[block],
                bounds - bounds[0], targets[part], candidates.at(block),
            )  # fmt: skip
        return above, equal

    def scores(self, score: Score, queries: Tensor, entity: Tensor) -> Floats:
        """One query is answered on one thread."""
        if score.name not in DISTANCES:
            return super().scores(score, queries, entity)
        kind = DISTANCES[score.name]
        if len(queries) == 1:
            return -distance.distances(kind, queries.numpy(), entity.numpy())[None]
        return -distance.all_distances(kind, queries.numpy(), entity.numpy())
