"""Exact filtered ranks under the L1 distance, mostly decided on eight-bit copies.

Rows are quantised to bytes, x ≈ low + step·b, and each keeps the sum of its rounding errors. A sum
of absolute byte differences, one instruction for 32 coordinates on x86, then bounds the true
distance from both sides:

    |‖q - c‖₁ - step·Σ|b_q - b_c|| ≤ error(q) + error(c).

Only candidates whose bounds enclose the target's distance are compared in float32, so the ranks
are those of a full float32 scan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.kernels.byte_distance import LANES, byte_distance
from lkge.kernels.jit import parallel, serial

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Places = NDArray[np.int64]

ROUNDING = np.float32(1e-5)
"""Relative error allowed for a float32 sum of distances, far above what one has."""


class Quantised(NamedTuple):
    """Rows as bytes, padded to whole vectors, and their rounding errors in steps, rounded up."""

    codes: NDArray[np.uint8]
    errors: Floats


def count_ahead(
    queries: Floats,
    candidates: Floats,
    targets: Ints,
    limits: Ints,
    starts: Places,
    stops: Places,
    answers: Ints,
    since: Ints,
    until: Ints,
) -> tuple[Places, Places]:
    """How many candidates are nearer than the target, and how many as near (itself included).

    Shapes: queries (b, d), candidates (n, d), targets (b,). Each of p views of the growing graph
    has its own candidates, those below `limits` (p,), and leaves out other known answers:
    `answers[starts[b]:stops[b]]` known `since` snapshot `until` (p,) or before. Both counts (b, p).
    """
    low, step = _grid(queries, candidates)
    query_codes = quantise(queries, low, step)
    codes = quantise(candidates, low, step)
    nearer = np.zeros((len(queries), len(limits)), dtype=np.int64)
    equal = np.zeros_like(nearer)
    order = np.argsort(limits, kind="stable")
    _count(
        queries, candidates, *query_codes, *codes, step, targets, limits[order], nearer, equal
    )
    nearer, equal = nearer[:, np.argsort(order)], equal[:, np.argsort(order)]
    _leave_out(
        queries, candidates, targets, limits, starts, stops, answers, since, until, nearer, equal
    )
    return nearer, equal


def _grid(queries: Floats, candidates: Floats) -> tuple[np.float32, np.float32]:
    """A byte grid (low, step) over the bulk of all coordinates; outliers are clipped to it."""
    centre = np.float32(candidates.mean())
    spread = 4 * max(candidates.std(), queries.std() if len(queries) else 0.0)
    half = np.float32(max(spread, 1e-6))
    return centre - half, 2 * half / np.float32(255)


@parallel
def quantise(rows: Floats, low: np.float32, step: np.float32) -> Quantised:
    """Bytes and error sums of `rows` (n, d) on the grid low + step·{0 … 255}."""
    size, dim = rows.shape
    codes = np.zeros((size, (dim + LANES - 1) // LANES * LANES), dtype=np.uint8)
    errors = np.empty(size, dtype=np.float32)
    for n in prange(size):
        error = np.float32(0)
        for i in range(dim):
            exact = (rows[n, i] - low) / step
            code = min(max(np.rint(exact), np.float32(0)), np.float32(255))
            codes[n, i] = np.uint8(code)
            error += abs(exact - code)
        errors[n] = np.ceil(error)
    return Quantised(codes, errors)


@serial
def _l1(x: Floats, y: Floats) -> np.float32:
    total = np.float32(0)
    for i in range(len(x)):
        total += abs(x[i] - y[i])
    return total


@parallel
def _count(
    queries: Floats,
    candidates: Floats,
    query_codes: NDArray[np.uint8],
    query_errors: Floats,
    codes: NDArray[np.uint8],
    errors: Floats,
    step: np.float32,
    targets: Ints,
    limits: Ints,
    nearer: Places,
    equal: Places,
) -> None:
    """Counts per ascending limit over all candidates, nothing left out."""
    for b in prange(len(queries)):
        query = queries[b]
        distance = _l1(query, candidates[targets[b]])
        slack = query_errors[b] + np.float32(1) + ROUNDING * distance / step
        surely_nearer = distance / step - slack
        surely_farther = distance / step + slack
        ahead, level, begin = 0, 0, 0
        for p in range(len(limits)):
            for c in range(begin, limits[p]):
                apart = np.float32(byte_distance(query_codes, b, codes, c))
                if apart - errors[c] > surely_farther:
                    continue
                if apart + errors[c] < surely_nearer:
                    ahead += 1
                    continue
                exact = _l1(query, candidates[c])
                ahead += exact < distance
                level += exact == distance
            begin = max(begin, limits[p])
            nearer[b, p] = ahead
            equal[b, p] = level


@parallel
def _leave_out(
    queries: Floats,
    candidates: Floats,
    targets: Ints,
    limits: Ints,
    starts: Places,
    stops: Places,
    answers: Ints,
    since: Ints,
    until: Ints,
    nearer: Places,
    equal: Places,
) -> None:
    """Take known answers other than the target out of the counts."""
    for b in prange(len(queries)):
        distance = _l1(queries[b], candidates[targets[b]])
        for place in range(starts[b], stops[b]):
            answer = answers[place]
            if answer == targets[b] or answer >= limits.max():
                continue
            exact = _l1(queries[b], candidates[answer])
            for p in range(len(limits)):
                if answer < limits[p] and since[place] <= until[p]:
                    nearer[b, p] -= exact < distance
                    equal[b, p] -= exact == distance
