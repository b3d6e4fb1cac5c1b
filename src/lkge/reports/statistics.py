"""Intervals and tests of means. Student's t is computed here: no further library is needed."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev

import numpy as np

LEVEL = 0.95
MOST_EXACT = 14
"""With at most so many values all signs are tried; with more, `DRAWS` random ones."""
DRAWS = 10_000


def t_interval(values: Sequence[float], level: float = LEVEL) -> float:
    """Half the width of the interval of the mean, t·s/√n; nan if n < 2."""
    if len(values) < 2:
        return math.nan
    return t_quantile(level, len(values) - 1) * stdev(values) / math.sqrt(len(values))


def t_test(values: Sequence[float]) -> float:
    """p of "the mean is 0", two-sided; nan if n < 2 or all values are equal."""
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return 1 - t_within(abs(fmean(values)) / error, len(values) - 1) if error else math.nan


def t_within(t: float, df: int) -> float:
    """P(|T| ≤ t) of Student's t with `df` degrees of freedom, by its finite series
    (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(df))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = df % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(2 + odd, df + 1, 2):
        total += term
        term *= cosine**2 * (k - 1) / k
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


@cache
def t_quantile(level: float, df: int) -> float:
    """The t with P(|T| ≤ t) = `level`, by bisection."""
    low, high = 0.0, 1.0
    while t_within(high, df) < level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, df) < level else (low, middle)
    return high


def sign_test(values: Sequence[float]) -> float:
    """p of a paired randomisation test, two-sided: how often Σ ± values is at least as far from 0
    as Σ values, each sign with probability 1/2; nan without two values that are not 0."""
    known = np.array([value for value in values if value], dtype=np.float64)
    if len(known) < 2:
        return math.nan
    if exact := len(known) <= MOST_EXACT:
        bits = np.arange(2 ** len(known))[:, None] >> np.arange(len(known))
        signs = 1 - 2 * (bits & 1)
    else:
        signs = np.random.default_rng(0).choice((-1, 1), (DRAWS, len(known)))
    reached = np.abs(signs @ known) >= abs(known.sum()) * (1 - 1e-12)
    return float(reached.mean()) if exact else float((reached.sum() + 1) / (DRAWS + 1))
