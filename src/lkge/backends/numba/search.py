"""The best inner products of a query with all rows, mostly decided on bytes.

A row is quantised as x ≈ s·c, with its own step s and bytes c from -127 to 127, and the query as
q ≈ t·m, with 16-bit numbers m. The error e = ‖x - s·c‖ / s of each row is kept. An integer inner
product then bounds the true one from both sides:

    |q·x - s·t·(m·c)| ≤ s·(‖q‖·e + ‖q - t·m‖·‖c‖),    ‖c‖ ≤ 127·√d.

Only where the upper bound reaches the k-th best score so far, the score is computed, from the
largest bounds on: the answers are those of a full scan. The scan reads a quarter of the bytes of a
table in float32, and is limited by the memory.

For cosines s / ‖x‖ takes the place of s. Lengths ‖x‖ are kept, too.
"""

from functools import cached_property
from heapq import heapreplace
from threading import Lock
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lkge.backends.numba.distance import l2, wide_dot
from lkge.backends.numba.jit import inlined, serial
from lkge.backends.torch_backend import TorchBackend
from lkge.backends.torch_search import LISTED, Best, Search, best_of
from lkge.models.parameters import Doubles, Flags, Floats, Places
from lkge.models.scores import Score

BLOCK = 256
"""Rows whose largest bound is kept."""
HIGHEST = 127
"""The largest absolute value of a byte."""
LEVELS = 32766
"""The same for a number of the query, unless rows are so wide that the sums need smaller ones."""
LEAST = np.float32(1e-30)
"""The least step. Products of steps are far from the least float32 then, or below `TINY`."""
TINY = np.float32(1e-37)
"""Added to a bound: more than the error of numbers too small to have all digits."""
ROUNDING = 4e-6
"""The relative error allowed for a few operations in float32, far above what they have."""
MOST = 1e37
"""Scores above are computed by a full scan: float32 may not hold the bounds."""

NO_LENGTHS = np.empty(0)
"""Scores are products, not cosines."""
EVERY = np.empty(0, dtype=np.bool_)
"""All rows are left."""

Codes = NDArray[np.int8]
Levels = NDArray[np.int16]


class ByteRows(NamedTuple):
    """Rows (n, d) as bytes; their steps and their errors in steps, rounded up, both (n,); and the
    largest step."""

    codes: Codes
    steps: Floats
    errors: Floats
    largest: float

    @classmethod
    def of(cls, rows: Floats) -> Self:
        """Quantise finite rows."""
        codes = np.empty(rows.shape, dtype=np.int8)
        steps, errors = np.empty((2, len(rows)), dtype=np.float32)
        _quantise(rows, codes, steps, errors)
        return cls(codes, steps, errors, float(steps.max(initial=0)))

    def divided(self, lengths: Doubles) -> Self:
        """The same for rows divided by their lengths (n,); rows of zeros stay."""
        divided = np.divide(self.steps, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        steps = divided.astype(np.float32)
        return self._replace(steps=steps, largest=float(steps.max(initial=0)))


class ByteQuery(NamedTuple):
    """A query (d,) as numbers m and their step t; ‖q‖; and what the error of the query and rounding
    add to a bound, in steps of a row."""

    levels: Levels
    step: np.float32
    length: np.float32
    slack: np.float32

    @classmethod
    def of(cls, query: Doubles) -> Self:
        """Quantise a query that is not zero."""
        most = min(LEVELS, (2**31 - 1) // (HIGHEST * len(query)) - 1)
        step = np.float32(np.abs(query).max() / max(most, 1))
        levels = np.rint(query / np.float64(step))
        error = np.linalg.norm(query - np.float64(step) * levels)
        length = np.linalg.norm(query) * (1 + ROUNDING)
        slack = (error + ROUNDING * length) * HIGHEST * np.sqrt(len(query)) * (1 + ROUNDING)
        return cls(levels.astype(np.int16), step, np.float32(length), np.float32(slack))


class ByteSearch(Search):
    """`Search` on the CPU. A query is answered on one thread and without a lock, so that several
    can be answered at once. Rows are quantised by the first search, which takes as long as a few
    full scans."""

    def __init__(self, score: Score, entity: Tensor, backend: TorchBackend) -> None:
        super().__init__(score, entity.contiguous(), backend)
        self._rows: Floats = self.entity.numpy()
        self._lock = Lock()

    def best(self, query: Tensor, k: int, left: Flags) -> Best:
        if not self.score.is_bilinear:
            return super().best(query, k, left)
        asked = query.contiguous().numpy()
        tables = self._tables()
        found = tables and self._found(tables[0], asked, NO_LENGTHS, 1.0, k, left)
        return found or best_of(self.products(query), k, left)

    def nearest(self, row: int, k: int, left: Flags) -> Best:
        tables = self._tables()
        asked, lengths = self._rows[row : row + 1], self._lengths
        found = tables and self._found(tables[1], asked, lengths, lengths[row], k, left)
        return found or best_of(self.cosines(row), k, left)

    def products(self, query: Tensor) -> Floats:
        return _scores(query.contiguous().numpy(), self._rows, NO_LENGTHS, 1.0)

    def cosines(self, row: int) -> Floats:
        return _scores(self._rows[row : row + 1], self._rows, self._lengths, self._lengths[row])

    @cached_property
    def _lengths(self) -> Doubles:
        return _lengths(self._rows)

    def _tables(self) -> tuple[ByteRows, ByteRows] | None:
        """The byte rows for products, and those for cosines; None where a row is not finite."""
        with self._lock:
            return self._quantised

    @cached_property
    def _quantised(self) -> tuple[ByteRows, ByteRows] | None:
        if not np.isfinite(self._lengths).all():
            return None
        rows = ByteRows.of(self._rows)
        return rows, rows.divided(self._lengths)

    def _found(
        self, table: ByteRows, query: Floats, lengths: Doubles, length: float, k: int, left: Flags
    ) -> Best | None:
        """The best by bytes; None if float32 may not hold the bounds."""
        exact = query[0] / np.float64(length or 1.0)
        largest = float(np.abs(exact).max(initial=0))
        highest = largest * exact.size * HIGHEST * table.largest
        if not (largest > LEAST and highest < MOST):
            return None
        levels, step, reach, slack = ByteQuery.of(exact)
        codes, steps, errors = table[:3]
        estimates = np.empty(len(codes), dtype=np.float32)
        bounds = np.empty(-(-len(codes) // BLOCK), dtype=np.float32)
        _estimates(codes, steps, errors, levels, step, reach, slack, estimates, bounds)
        order = np.argsort(-bounds)

        def best(most: int, left: Flags, replaces: bool) -> tuple[Places, Floats]:
            return _best(
                query, self._rows, lengths, length, steps, errors, reach, slack, order, bounds,
                left, most, estimates, replaces,
            )  # fmt: skip

        best(min(LISTED, len(left)), EVERY, True)
        places, scores = best(min(k, int(np.count_nonzero(left))), left, False)
        first = np.lexsort((places, -scores))[:k]
        return Best(places[first], scores[first], estimates)


@serial
def _lengths(rows: Floats) -> Doubles:
    """‖x‖ of each row, (n,)."""
    lengths = np.empty(len(rows))
    for n in range(len(rows)):
        lengths[n] = np.sqrt(wide_dot(rows, n, rows, n))
    return lengths


@serial
def _quantise(rows: Floats, codes: Codes, steps: Floats, errors: Floats) -> None:
    """See `ByteRows`."""
    dim = rows.shape[1]
    slack = np.float32(ROUNDING * HIGHEST * np.sqrt(dim))
    scaled = np.empty((2, dim), dtype=np.float32)
    for n in range(len(rows)):
        highest = np.float32(0)
        for i in range(dim):
            highest = max(highest, abs(rows[n, i]))
        step = max(highest / np.float32(HIGHEST), LEAST)
        for i in range(dim):
            scaled[0, i] = rows[n, i] / step
            scaled[1, i] = np.rint(scaled[0, i])
            codes[n, i] = np.int8(scaled[1, i])
        steps[n] = step
        errors[n] = l2(scaled, 0, scaled, 1) + slack


@serial
def _scores(query: Floats, rows: Floats, lengths: Doubles, length: float) -> Floats:
    """The score of each row, (n,)."""
    found = np.empty(len(rows), dtype=np.float32)
    for n in range(len(rows)):
        found[n] = _score(query, rows, n, lengths, length)
    return found


@inlined
def _score(query: Floats, rows: Floats, n: int, lengths: Doubles, length: float) -> np.float32:
    """The product of a query (1, d) with row n, or their cosine."""
    product = wide_dot(query, 0, rows, n)
    if len(lengths):
        scale = length * lengths[n]
        product = product / scale if scale != 0 else 0.0
    return np.float32(product)


@serial
def _estimates(
    codes: Codes, steps: Floats, errors: Floats, levels: Levels, step: np.float32,
    length: np.float32, slack: np.float32, estimates: Floats, bounds: Floats,
) -> None:  # fmt: skip
    """s·t·(m·c) for each row, (n,); and the largest upper bound of each `BLOCK` rows. With all sums
    cast to int32 the compiler multiplies and adds two pairs at a time."""
    size, dim = codes.shape
    bounds[:] = -np.inf
    for block in range(len(bounds)):
        for n in range(block * BLOCK, min((block + 1) * BLOCK, size)):
            total = np.int32(0)
            for i in range(dim):
                total += np.int32(np.int32(codes[n, i]) * np.int32(levels[i]))
            estimates[n] = steps[n] * (step * np.float32(np.int32(total)))
            bound = estimates[n] + _margin(steps[n], errors[n], length, slack)
            bounds[block] = max(bounds[block], bound)


@inlined
def _margin(
    step: np.float32, error: np.float32, length: np.float32, slack: np.float32
) -> np.float32:
    """How far a score may be above its estimate."""
    return step * (length * error + slack) + TINY


@serial
def _best(
    query: Floats, rows: Floats, lengths: Doubles, length: float, steps: Floats, errors: Floats,
    query_length: np.float32, slack: np.float32, order: Places, bounds: Floats, left: Flags,
    k: int, estimates: Floats, replaces: bool,
) -> tuple[Places, Floats]:  # fmt: skip
    """Rows that are left, among them all with at least the k-th best score, in any order, and their
    scores. With `replaces` scores that are computed take the place of their estimates."""
    places = np.empty(len(rows) if k else 0, dtype=np.int64)
    scores = np.empty(len(places), dtype=np.float32)
    best = [np.float32(-np.inf)] * k
    count = 0
    for block in order:
        if not k or bounds[block] < best[0]:
            break
        for n in range(block * BLOCK, min((block + 1) * BLOCK, len(rows))):
            margin = _margin(steps[n], errors[n], query_length, slack)
            if estimates[n] + margin < best[0]:
                continue
            score = _score(query, rows, n, lengths, length)
            if replaces:
                estimates[n] = score
            if score >= best[0] and (not len(left) or left[n]):
                places[count], scores[count] = n, score
                count += 1
                if score > best[0]:
                    heapreplace(best, score)
    return places[:count], scores[:count]
