"""The list of a query, and the features of an answer in it, which have no scale.

The list of a query has the scores of all candidates that are not known. They are standardised,
z = (s - mean) / standard deviation, so a distance and a product are treated alike. A known answer
has the place that it would have in the list.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]

LIMIT = 15.0
"""The greatest absolute value of log odds; exp(-15) is 3e-7."""
AT_ONCE = 1 << 14


class Features(NamedTuple):
    """Of each answer, (k,): log p/(1 - p), where p is its share of the softmax of the list, and the
    logarithm of its rank; of equal scores each has the best rank."""

    log_odds: Doubles
    log_rank: Doubles


@dataclass(frozen=True)
class AnswerList:
    """The list of a query: the scores (u,) of the candidates that are not known, and their standard
    deviation. Each stands for `inflation` candidates: more than 1 if they are a sample."""

    scores: Floats
    deviation: float
    inflation: float = 1.0

    @classmethod
    def of(cls, scores: Floats, known: NDArray[np.integer], inflation: float = 1.0) -> Self:
        """From the scores of all candidates (n,) and the places of the known ones."""
        listed = np.delete(scores, known)
        return cls(listed, _deviation(listed) or 1.0, inflation)

    def features(self, scores: Floats, in_list: Mask, temperature: float) -> Features:
        """The features of answers with these scores (k,). `in_list`: not known, so that the answer
        itself is a part of the list."""
        return Features(self._log_odds(scores, in_list, temperature), self._log_rank(scores))

    def _log_odds(self, scores: Floats, in_list: Mask, temperature: float) -> Doubles:
        """temperature · z - log Σ exp(temperature · z'), the sum over all others."""
        if not len(self.scores):
            return np.full(len(scores), LIMIT)
        factor, highest = temperature / self.deviation, float(self.scores.max())
        parts = _pieces(self.scores, highest)
        total = sum(float(np.exp(np.multiply(part, factor, out=part)).sum()) for part in parts)
        relative = factor * (scores.astype(np.float64) - highest)
        own = np.exp(np.minimum(relative, 0)) * in_list
        others = np.maximum(total - own, np.exp(-LIMIT) * total)
        log_odds: Doubles = np.clip(relative - np.log(self.inflation * others), -LIMIT, LIMIT)
        return log_odds

    def _log_rank(self, scores: Floats) -> Doubles:
        """The logarithm of 1 + the number of greater scores."""
        lowest = scores.min(initial=np.inf)
        top = np.sort(self.scores[self.scores >= lowest])
        above = len(top) - np.searchsorted(top, scores, side="right")
        log_rank: Doubles = np.log1p(self.inflation * above)
        return log_rank


def _deviation(scores: Floats) -> float:
    """The standard deviation, from differences to one of the scores."""
    total, squares = 0.0, 0.0
    for part in _pieces(scores, float(scores[0]) if len(scores) else 0.0):
        total += float(part.sum())
        squares += float(np.square(part, out=part).sum())
    size = max(len(scores), 1)
    return math.sqrt(max(squares / size - (total / size) ** 2, 0.0))


def _pieces(scores: Floats, origin: float) -> Iterator[Doubles]:
    """score - origin as float64, so few at a time that they stay in the cache."""
    for start in range(0, len(scores), AT_ONCE):
        yield scores[start : start + AT_ONCE].astype(np.float64) - origin
