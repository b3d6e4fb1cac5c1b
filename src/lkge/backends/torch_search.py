"""The best answers to a query, and the rows nearest to a row: a scan of all rows.

An inner product is computed with more digits than are kept, and rounded once: equal rows have equal
scores wherever they stand.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lkge.backends.torch_backend import TorchBackend
from lkge.models.parameters import Flags, Floats, Places, host
from lkge.models.scores import Score

LISTED = 64
ROWS = 1 << 16
"""Rows that are multiplied at a time, so that few are in memory as doubles."""


class Best(NamedTuple):
    """The best candidates (k,), best first, and of equal ones the first first; their scores (k,);
    and the list of all scores (n,), in which those below the `LISTED` best may be estimates. The
    list is the same whatever k and the candidates are."""

    places: Places
    scores: Floats
    list: Floats


class Search:
    """The search of prepared entities (n, d), by one query at a time."""

    def __init__(self, score: Score, entity: Tensor, backend: TorchBackend) -> None:
        self.score, self.entity, self.backend = score, entity, backend

    def best(self, query: Tensor, k: int, left: Flags) -> Best:
        """The k highest scores of a query (1, d) among the entities that are `left` (n,)."""
        if not self.score.is_bilinear:
            return best_of(self.backend.scores(self.score, query, self.entity)[0], k, left)
        return best_of(self.products(query), k, left)

    def nearest(self, row: int, k: int, left: Flags) -> Best:
        """The k highest cosines of rows with a row among those `left` (n,). With a row of zeros
        every cosine is zero."""
        return best_of(self.cosines(row), k, left)

    def products(self, query: Tensor) -> Floats:
        """q·x for each row x, (n,)."""
        return _rounded([rows @ _wide(query[0]) for rows in self._wide_rows()])

    def cosines(self, row: int) -> Floats:
        """q·x / (‖q‖‖x‖) for each row x and the row q, (n,)."""
        query = _wide(self.entity[row])
        found = []
        for rows in self._wide_rows():
            lengths = rows.norm(dim=1) * query.norm()
            found.append(torch.where(lengths == 0, 0, (rows @ query) / lengths))
        return _rounded(found)

    def _wide_rows(self) -> Iterator[Tensor]:
        for start in range(0, len(self.entity), ROWS):
            yield _wide(self.entity[start : start + ROWS])


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


def _wide(rows: Tensor) -> Tensor:
    """These as doubles, where the device has them."""
    return rows if rows.device.type == "mps" else rows.double()


def _rounded(parts: list[Tensor]) -> Floats:
    return host(torch.cat(parts).float()) if parts else np.empty(0, np.float32)
