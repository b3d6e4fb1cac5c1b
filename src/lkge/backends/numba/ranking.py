"""Exact filtered ranks under the L1 distance, mostly decided on eight-bit copies.

Rows are quantised to bytes, x ≈ low + step·b, and each keeps the sum of its rounding errors. A sum
of absolute byte differences, one instruction for 32 coordinates on x86, then bounds the true
distance from both sides:

    |‖q - c‖₁ - step·Σ|b_q - b_c|| ≤ error(q) + error(c).

Only candidates whose bounds enclose the target's distance are compared in float32, so the ranks
are those of a full float32 scan. Facts with the same query share its byte distances, and both
queries and candidates are worked on in tiles that fit the caches.
"""

import numpy as np
from numba import prange

from lkge.backends.numba.byte_distance import LANES, ROWS, STRIP, byte_distances, count_below
from lkge.backends.numba.distance import l1
from lkge.backends.numba.jit import inlined, parallel, rough
from lkge.data.array_types import Bytes, Floats, Ints, Places
from lkge.models.queries import Candidates

ROUNDING = np.float32(1e-5)
"""Relative error allowed for a float32 sum of distances, far above what one has."""

QUERIES, CANDIDATES = 16, 256
"""A tile: its byte distances stay in the first cache, its float32 rows in the second."""

BEYOND = np.int32(np.iinfo(np.int32).max)
"""The byte distance of what is not a candidate."""

UNKNOWN = np.float32(-1)
"""A distance that has not been computed."""


def count_ahead(
    queries: Floats, numbers: Ints, rows: Floats, targets: Ints, candidates: Candidates
) -> tuple[Places, Places]:
    """How many candidates are nearer than the target, and how many as near (itself included), both
    (b, p). Shapes: queries (q, d), numbers (b,) ascending in 0 … q-1, rows (n, d), targets (b,)."""
    low, step = _grid(queries, rows)
    query_codes, query_errors = quantise(queries, low, step)
    codes, errors = quantise(rows, low, step)
    distances = _own_distances(queries, numbers, rows, targets)
    centre = distances / step
    slack = query_errors[numbers] + 1 + ROUNDING * centre
    bounds = np.searchsorted(numbers, np.arange(len(queries) + 1))
    order = np.argsort(candidates.limits, kind="stable")
    nearer = np.zeros((len(targets), len(order)), dtype=np.int64)
    equal = np.zeros_like(nearer)
    _count(
        queries, rows, query_codes, codes, errors.astype(np.int32), bounds, targets, distances,
        np.floor(centre - slack).astype(np.int32), np.ceil(centre + slack).astype(np.int32),
        candidates.limits[order], nearer, equal,
    )  # fmt: skip
    nearer[:, order], equal[:, order] = nearer.cumsum(axis=1), equal.cumsum(axis=1)
    _leave_out(queries, rows, bounds, targets, distances, candidates, nearer, equal)
    return nearer, equal


def _grid(queries: Floats, candidates: Floats) -> tuple[np.float32, np.float32]:
    """A byte grid (low, step) over the bulk of all coordinates; outliers are clipped to it. It
    reaches from candidates to queries even where both are constant, so that an int32 can count the
    steps of every distance."""
    mean, deviation = _mean_and_deviation(candidates)
    centre, spread = np.float32(mean), max(4 * deviation, 1e-6)
    if len(queries):
        mean, deviation = _mean_and_deviation(queries)
        spread = max(spread, 4 * deviation, abs(mean - float(centre)))
    half = np.float32(spread)
    return centre - half, 2 * half / np.float32(255)


@rough
def _mean_and_deviation(rows: Floats) -> tuple[float, float]:
    """Of all coordinates, in one pass."""
    total, squares = 0.0, 0.0
    for n in prange(len(rows)):
        of_row, squares_of_row = 0.0, 0.0
        for i in range(rows.shape[1]):
            x = np.float64(rows[n, i])
            of_row += x
            squares_of_row += x * x
        total += of_row
        squares += squares_of_row
    mean = total / max(rows.size, 1)
    return mean, np.sqrt(max(squares / max(rows.size, 1) - mean * mean, 0.0))


@rough
def quantise(rows: Floats, low: np.float32, step: np.float32) -> tuple[Bytes, Floats]:
    """`rows` (n, d) as bytes on the grid low + step·{0 … 255}, padded to whole vectors and with
    `ROWS` more rows, so that a group of rows may begin at any; and their rounding errors in steps,
    rounded up, (n,)."""
    size, dim = rows.shape
    codes = np.zeros((size + ROWS, (dim + LANES - 1) // LANES * LANES), dtype=np.uint8)
    errors = np.empty(size, dtype=np.float32)
    for n in prange(size):
        error = np.float32(0)
        for i in range(dim):
            exact = (rows[n, i] - low) / step
            code = min(max(np.rint(exact), np.float32(0)), np.float32(255))
            codes[n, i] = np.uint8(code)
            error += abs(exact - code)
        errors[n] = np.ceil(error)
    return codes, errors


@parallel
def _own_distances(queries: Floats, numbers: Ints, candidates: Floats, targets: Ints) -> Floats:
    out = np.empty(len(targets), dtype=np.float32)
    for b in prange(len(targets)):
        out[b] = l1(queries, numbers[b], candidates, targets[b])
    return out


@parallel
def _count(
    queries: Floats, candidates: Floats, query_codes: Bytes, codes: Bytes, errors: Ints,
    bounds: Places, targets: Ints, distances: Floats, surely_nearer: Ints, surely_farther: Ints,
    limits: Ints, nearer: Places, equal: Places,
) -> None:  # fmt: skip
    """Counts between consecutive ascending limits, nothing left out. The facts of query q are
    `bounds[q]` up to `bounds[q + 1]`."""
    blocks = (len(queries) + QUERIES - 1) // QUERIES
    for block in prange(blocks):
        first = block * QUERIES
        last = min(first + QUERIES, len(queries))
        apart = np.empty((QUERIES, CANDIDATES), dtype=np.int32)
        margins = np.empty(CANDIDATES // STRIP, dtype=np.int32)
        exact = np.empty(CANDIDATES, dtype=np.float32)
        begin = 0
        for p in range(len(limits)):
            while begin < limits[p]:
                end = min(begin + CANDIDATES, limits[p])
                for c in range(begin, end, ROWS):
                    for q in range(first, last):
                        byte_distances(query_codes, q, codes, c, apart, q - first, c - begin)
                apart[:, end - begin :] = BEYOND
                for strip in range((end - begin + STRIP - 1) // STRIP):
                    start = begin + strip * STRIP
                    margins[strip] = errors[start : min(start + STRIP, end)].max()
                for q in range(first, last):
                    exact[:] = UNKNOWN
                    for b in range(bounds[q], bounds[q + 1]):
                        ahead, level = _compare(
                            queries, q, candidates, begin, end, apart, q - first, exact, margins,
                            targets[b], distances[b], surely_nearer[b], surely_farther[b],
                        )  # fmt: skip
                        nearer[b, p] += ahead
                        equal[b, p] += level
                begin = end


@inlined
def _compare(
    queries: Floats, q: int, candidates: Floats, begin: int, end: int, apart: Ints, row: int,
    exact: Floats, margins: Ints, target: int, distance: np.float32, surely_nearer: np.int32,
    surely_farther: np.int32,
) -> tuple[int, int]:  # fmt: skip
    """How many of a tile are nearer than `distance`, and how many as near; the target itself is,
    however its own distance may round. `margins` are the largest errors of each strip of the tile;
    `exact` keeps float32 distances of the query for the next target."""
    ahead, level = 0, 0
    for strip in range((end - begin + STRIP - 1) // STRIP):
        low, high = surely_nearer - margins[strip], surely_farther + margins[strip]
        surely, perhaps = count_below(apart, row, strip * STRIP, low, high + 1)
        ahead += surely
        if surely == perhaps:
            continue
        for place in range(strip * STRIP, min((strip + 1) * STRIP, end - begin)):
            if not low <= apart[row, place] <= high:
                continue
            if begin + place == target:
                level += 1
                continue
            if exact[place] == UNKNOWN:
                exact[place] = l1(queries, q, candidates, begin + place)
            ahead += exact[place] < distance
            level += exact[place] == distance
    return ahead, level


@parallel
def _leave_out(
    queries: Floats, rows: Floats, bounds: Places, targets: Ints, distances: Floats,
    candidates: Candidates, nearer: Places, equal: Places,
) -> None:  # fmt: skip
    """Take known answers other than the target out of the counts."""
    limits, starts, stops, answers, since, until = candidates
    highest = limits.max()
    for q in prange(len(queries)):
        for place in range(starts[q], stops[q]):
            answer = answers[place]
            if answer >= highest:
                continue
            exact = l1(queries, q, rows, answer)
            for b in range(bounds[q], bounds[q + 1]):
                if answer == targets[b] or exact > distances[b]:
                    continue
                for p in range(len(limits)):
                    if answer < limits[p] and since[place] <= until[p]:
                        nearer[b, p] -= np.int64(exact < distances[b])
                        equal[b, p] -= np.int64(exact == distances[b])
