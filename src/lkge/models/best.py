"""The best answers to a query, by the scores of all candidates."""

from typing import NamedTuple

import numpy as np

from lkge.data.array_types import Flags, Floats, Places

LISTED = 64


class Best(NamedTuple):
    """The best candidates (k,), best first, and of equal ones the first first; their scores (k,);
    and the list of all scores (n,), in which those below the `LISTED` best may be estimates. The
    list is the same whatever k and the candidates are."""

    places: Places
    scores: Floats
    list: Floats


def best_of(scores: Floats, k: int, left: Flags) -> Best:
    """The best of the entities that are left, by the scores of all."""
    places = best_first(np.where(left, scores, -np.inf), min(k, int(np.count_nonzero(left))))
    return Best(places, scores[places], scores)


def best_first(scores: Floats, k: int) -> Places:
    """The places of the k highest scores, best first; of equal ones, the first comes first."""
    k = min(k, len(scores))
    worst = np.partition(scores, len(scores) - k)[len(scores) - k] if k else np.inf
    places = np.flatnonzero(scores >= worst)
    return places[np.argsort(-scores[places], kind="stable")][:k]
