"""Filtered ranks from scores: how many candidates are above a target, and how many beside it.

A matrix product rounds its elements differently from place to place, so that equal rows may get
scores that differ in the last digits. Where scores are such products, those that lie within `slack`
of the target's are computed once more, in one order and with more digits, and rounded then: ranks
are those of exact products rounded to float32, and a target never loses to itself.
"""

import numpy as np
from numba import prange

from lkge.backends.numba.distance import wide_dot
from lkge.backends.numba.jit import inlined, parallel
from lkge.models.parameters import Floats, Ints, Places
from lkge.models.queries import Candidates

STRIP = 256
"""Scores that are counted together; only one with an undecided score is looked at more closely."""


def product_slack(queries: Floats, candidates: Floats) -> Floats:
    """How far two elements of queries @ candidates.T in one row may seem apart by rounding alone,
    (q,): 2·(d + 2)·2⁻²⁴·‖q‖·max ‖c‖, for each of the two sums has the relative error d·2⁻²⁴."""
    reach = np.fmax.reduce(_lengths(candidates), initial=0)
    slack: Floats = np.float32(2 * (queries.shape[1] + 2) * 2.0**-24) * reach * _lengths(queries)
    return slack


def _lengths(rows: Floats) -> Floats:
    """‖x‖₂ of each row, (n,)."""
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths


@parallel
def count_above(
    scores: Floats, queries: Floats, rows: Floats, slack: Floats, bounds: Places, targets: Ints,
    candidates: Candidates,
) -> tuple[Places, Places]:  # fmt: skip
    """How many candidates score higher than the target, and how many as high (itself included);
    both (b, p). Shapes: scores (q, n), targets (b,); the facts of query q are `bounds[q]` up to
    `bounds[q + 1]`. Where slack (q,) is above zero, scores are products of queries (q, d) and rows
    (n, d). A score that is not a number is as high as any other."""
    limits, starts, stops, answers, since, until = candidates
    above = np.zeros((len(targets), len(limits)), dtype=np.int64)
    equal = np.zeros_like(above)
    order = np.argsort(limits)
    for q in prange(len(scores)):
        for b in range(bounds[q], bounds[q + 1]):
            score = scores[q, targets[b]]
            low, high = score - slack[q], score + slack[q]
            exact = slack[q] > 0
            own = np.float32(wide_dot(queries, q, rows, targets[b])) if exact else score
            begin, higher, lower = 0, 0, 0
            for p in order:
                while begin < limits[p]:
                    end = min(begin + STRIP, limits[p])
                    more, less = _beside(scores[q, begin:end], low, high)
                    if exact and more + less < end - begin:
                        for c in range(begin, end):
                            if not (scores[q, c] > high or scores[q, c] < low):
                                rival = np.float32(wide_dot(queries, q, rows, c))
                                more += int(rival > own)
                                less += int(rival < own)
                    begin, higher, lower = end, higher + more, lower + less
                above[b, p], equal[b, p] = higher, limits[p] - higher - lower
            for place in range(starts[q], stops[q]):
                answer = answers[place]
                if answer == targets[b] or answer >= len(rows):
                    continue
                ahead, behind = scores[q, answer] > high, scores[q, answer] < low
                if exact and not (ahead or behind):
                    rival = np.float32(wide_dot(queries, q, rows, answer))
                    ahead, behind = rival > own, rival < own
                for p in range(len(limits)):
                    if answer < limits[p] and since[place] <= until[p]:
                        above[b, p] -= np.int64(ahead)
                        equal[b, p] -= np.int64(not (ahead or behind))
    return above, equal


@inlined
def _beside(scores: Floats, low: np.float32, high: np.float32) -> tuple[int, int]:
    """How many of the scores (m,) are above `high`, and how many below `low`."""
    more, less = np.int32(0), np.int32(0)
    for c in range(len(scores)):
        more += np.int32(scores[c] > high)
        less += np.int32(scores[c] < low)
    return int(more), int(less)
