"""Is plausibility a probability? The share of true answers against their mean plausibility.

The answers are those of held-out queries, and true means held out: an answer that is true, but
neither known nor held out, counts as false. So where facts are absent, the shares are too low.
"""

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

BINS = 10
"""Bins of plausibility, of equal width."""
STRICT = ConfigDict(strict=True, extra="forbid")
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class Bin:
    """Answers of about the same plausibility: how many, their mean plausibility, and the share of
    true ones."""

    answers: Count
    plausibility: Share
    true: Share


@dataclass(frozen=True, config=STRICT)
class Reliability:
    """Bins of the answers to so many queries, ascending; only bins with answers.

    error   expected calibration error: the mean distance of plausibility and share of true ones
    """

    queries: Count
    error: Share
    bins: tuple[Bin, ...]

    @property
    def answers(self) -> int:
        """The number of answers."""
        return sum(each.answers for each in self.bins)

    @property
    def error_above(self) -> float | None:
        """The mean distance over the answers of all bins but the first one: most answers are
        implausible, and `error` is small if that is true. None if there are no others."""
        left = [each for each in self.bins if each.plausibility >= 1 / BINS]
        if not left:
            return None
        distance = sum(each.answers * abs(each.plausibility - each.true) for each in left)
        return distance / sum(each.answers for each in left)


def reliability(
    queries: int,
    plausibility: NDArray[np.float64],
    true: NDArray[np.bool_],
    weights: NDArray[np.float64],
) -> Reliability:
    """That of answers (m,), each with the number of answers that it stands for."""
    numbers = np.minimum((plausibility * BINS).astype(np.int64), BINS - 1)
    bins, distance = list[Bin](), 0.0
    for number in np.unique(numbers):
        inside = numbers == number
        given, share = _mean(plausibility, weights, inside), _mean(true, weights, inside)
        bins.append(Bin(int(inside.sum()), given, share))
        distance += float(weights[inside].sum()) * abs(given - share)
    return Reliability(queries, distance / float(weights.sum()), tuple(bins))


def _mean(values: NDArray[Any], weights: NDArray[np.float64], inside: NDArray[np.bool_]) -> float:
    """The weighted mean of some values between 0 and 1."""
    return min(float(np.average(values[inside], weights=weights[inside])), 1.0)
