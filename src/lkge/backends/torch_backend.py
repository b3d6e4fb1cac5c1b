"""The plain backend: torch on any device, and the twin of every kernel."""

import numpy as np
import torch
from torch import Tensor

from lkge.data.array_types import Floats, Ints, Places
from lkge.models.parameters import Gradient, RowGradient, host, index
from lkge.models.queries import Candidates, GroupedQueries
from lkge.models.scores import Score

EPSILON = 1e-8
ADAGRAD_EPSILON = 1e-10
CHUNK = 256
"""Queries ranked at a time."""

Counts = tuple[Places, Places]


class TorchBackend:
    """Operations on rows of tables (n, d), and ranking. `rows` (u,) are distinct; a row that is not
    named does not change."""

    fused = False
    """Whether losses of kernels serve; see `lkge.backends.IMPLEMENTATIONS`."""

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
        """θ -= η·m̂ / (√v̂ + ε) on the touched rows; the bias correction of a row counts its own
        updates. Shapes: first and second moments (n, d), steps (n,)."""
        rows = gradient.rows()
        values = gradient.values[rows]
        steps[rows] += 1
        first[rows] = beta1 * first[rows] + (1 - beta1) * values
        second[rows] = beta2 * second[rows] + (1 - beta2) * values.square()
        count = steps[rows].double()[:, None]
        rate = (learning_rate / (1 - beta1**count)).float()
        root = (1 / (1 - beta2**count).sqrt()).float()
        table[rows] -= rate * first[rows] / (second[rows].sqrt() * root + EPSILON)

    def adagrad(
        self, table: Tensor, gradient: RowGradient, sums: Tensor, learning_rate: float
    ) -> None:
        """θ -= η·g / (√Σg² + ε) on the touched rows, their g² added to the sums (n, d) before."""
        touched = gradient.rows()
        rows = touched if len(touched) < len(table) else slice(None)
        values = gradient.values[rows]
        sums[rows] += values.square()
        table[rows] -= learning_rate * values / (sums[rows].sqrt() + ADAGRAD_EPSILON)

    def adagrad_rows(
        self,
        table: Tensor,
        gradient: Tensor,
        sums: Tensor,
        rows: Tensor,
        learning_rate: float,
        epsilon: float,
    ) -> None:
        """θ -= η·g / √(Σg² + ε) on the rows; gradient (u, d) of these rows alone."""
        summed = sums[rows] + gradient.square()
        sums[rows] = summed
        table[rows] -= learning_rate * gradient / (summed + epsilon).sqrt()

    def regularize(
        self, table: Tensor, centre: Tensor, weight: Tensor, gradient: RowGradient
    ) -> float:
        """Add the gradient of Σ w (x - c)² on the touched rows among the first k; return that loss.
        Shapes: centre (k, d), weight (k, 1) or (k, d)."""
        rows = gradient.rows()
        rows = rows[rows < len(centre)]
        difference = table[rows] - centre[rows]
        gradient.add(rows, 2 * weight[rows] * difference)
        return float((weight[rows] * difference.square()).sum(dtype=torch.float64))

    def add_and_clear(self, source: RowGradient, into: RowGradient, weight: float) -> None:
        """Add `weight` times one gradient to another of the same table; the first is then zero."""
        rows = source.rows()
        into.add(rows, source.values[rows], weight)
        source.clear(rows)

    def clear(self, gradient: Gradient) -> None:
        """Set a gradient to zero, at the cost of its touched rows."""
        for part in gradient:
            part.clear(part.rows())

    def rank_counts(
        self,
        score: Score,
        entity: Tensor,
        queries: Tensor,
        grouped: GroupedQueries,
        candidates: Candidates,
    ) -> Counts:
        """How many candidates have a higher score than the object of each fact, and how many an
        equal one, the object included; (b, p) both, in the order of `grouped`. Shapes: prepared
        entities (n, d), distinct queries (q, d)."""
        shape = len(grouped.facts), len(candidates.limits)
        higher, equal = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        numbers, targets = grouped.numbers, grouped.targets
        for start in range(0, shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            scores = _exact_scores(score, queries[index(numbers[part], entity.device)], entity)
            own = scores.gather(1, index(targets[part], entity.device)[:, None])
            above, below = scores > own, scores < own
            for view, keep in enumerate(_kept(numbers[part], targets[part], candidates, scores)):
                higher[part, view] = host((above & keep).sum(1))
                equal[part, view] = host((~(above | below) & keep).sum(1))
        return higher, equal

    def scores(self, score: Score, queries: Tensor, entity: Tensor) -> Floats:
        """The score of every entity (n, d) for every query (q, d), (q, n)."""
        return host(score.candidates(queries, entity))


def _exact_scores(score: Score, queries: Tensor, entity: Tensor) -> Tensor:
    """`Score.candidates`, equal for equal rows: a matrix product may round them differently, and is
    computed with more digits than are kept."""
    if score.is_bilinear and queries.device.type != "mps":
        return score.candidates(queries.double(), entity.double()).float()
    return score.candidates(queries, entity)


def _kept(numbers: Ints, targets: Ints, candidates: Candidates, scores: Tensor) -> list[Tensor]:
    """For each view, True where an entity is a candidate of a fact, (b, n): the object itself is,
    if it is below the limit, other known answers are not."""
    views = []
    for limit, until in zip(candidates.limits, candidates.until, strict=True):
        keep = np.zeros(scores.shape, dtype=np.bool_)
        keep[:, :limit] = True
        for row, (number, target) in enumerate(zip(numbers, targets, strict=True)):
            known = slice(candidates.starts[number], candidates.stops[number])
            others = candidates.answers[known][candidates.since[known] <= until]
            keep[row, others[others < scores.shape[1]]] = False
            keep[row, target] = target < limit
        views.append(torch.from_numpy(keep).to(scores.device))
    return views
