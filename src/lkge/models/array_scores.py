"""The scores over arrays, for answers without torch: the twins of those in `lkge.models.scores`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

import numpy as np

from lkge.data.array_types import Doubles, Floats
from lkge.errors import UnknownName

BLOCK = 1 << 16
"""Numbers of a block of rows, so that differences stay in the cache."""


class ArrayScore(ABC):
    """A score function over prepared rows; a higher score means a more plausible fact."""

    name: ClassVar[str]
    is_bilinear: ClassVar[bool] = False

    @abstractmethod
    def compose(self, head: Floats, relation: Floats) -> Floats:
        """Where (h, r) expects its tail to be, (k, d)."""

    @abstractmethod
    def pairs(self, queries: Floats, rows: Floats) -> Floats:
        """The score of each row (k, d) for its query, (k, d) or (d,); (k,)."""

    def candidates(self, queries: Floats, entity: Floats) -> Floats:
        """The score of every entity (n, d) for every query (q, d), (q, n)."""
        scores = np.empty((len(queries), len(entity)), np.float32)
        for part in _blocks(entity):
            for place, query in enumerate(queries):
                scores[place, part] = self.pairs(query, entity[part])
        return scores


class Translation(ArrayScore):
    """A relation is a translation."""

    def compose(self, head: Floats, relation: Floats) -> Floats:
        return head + relation


class TransE(Translation):
    """-‖q - t‖₁."""

    name = "transe"

    def pairs(self, queries: Floats, rows: Floats) -> Floats:
        apart = rows - queries
        scores: Floats = -np.abs(apart, out=apart).sum(-1)
        return scores


class TransEL2(Translation):
    """-‖q - t‖₂."""

    name = "transe-l2"

    def pairs(self, queries: Floats, rows: Floats) -> Floats:
        apart = rows - queries
        return -np.sqrt(_products(apart, apart))


class Bilinear(ArrayScore):
    """⟨q, t⟩."""

    is_bilinear = True

    def pairs(self, queries: Floats, rows: Floats) -> Floats:
        return _products(queries, rows)

    def candidates(self, queries: Floats, entity: Floats) -> Floats:
        scores: Floats = queries @ entity.T
        return scores


class DistMult(Bilinear):
    """Real coordinates."""

    name = "distmult"

    def compose(self, head: Floats, relation: Floats) -> Floats:
        return head * relation


class ComplEx(Bilinear):
    """Complex coordinates."""

    name = "complex"

    def compose(self, head: Floats, relation: Floats) -> Floats:
        return _complex_product(head, relation)


class RotatE(ArrayScore):
    """-Σ |q - t| over complex coordinates."""

    name = "rotate"

    def compose(self, head: Floats, relation: Floats) -> Floats:
        return _complex_product(head, relation)

    def pairs(self, queries: Floats, rows: Floats) -> Floats:
        apart = rows - queries
        apart *= apart
        real, imaginary = np.split(apart, 2, axis=-1)
        scores: Floats = -np.sqrt(real + imaginary).sum(-1)
        return scores


ARRAY_SCORES: Mapping[str, ArrayScore] = {
    score.name: score for score in (TransE(), TransEL2(), DistMult(), ComplEx(), RotatE())
}


def array_score_named(name: str) -> ArrayScore:
    """The score function of that name."""
    if name not in ARRAY_SCORES:
        raise UnknownName("score", name, ARRAY_SCORES)
    return ARRAY_SCORES[name]


def exact_products(query: Floats, rows: Floats) -> Floats:
    """q·x for each row x (n, d), rounded once: equal rows have equal scores wherever they stand."""
    wide = query.astype(np.float64)
    return _by_blocks(rows, lambda part: part @ wide)


def exact_cosines(query: Floats, rows: Floats) -> Floats:
    """q·x / (‖q‖‖x‖) for each row x (n, d), rounded once; 0 where a length is 0."""
    wide = query.astype(np.float64)

    def cosines(part: Doubles) -> Doubles:
        lengths = np.linalg.norm(part, axis=1) * np.linalg.norm(wide)
        with np.errstate(invalid="ignore"):
            found: Doubles = np.where(lengths == 0, 0, part @ wide / np.where(lengths, lengths, 1))
        return found

    return _by_blocks(rows, cosines)


def _by_blocks(rows: Floats, function: Callable[[Doubles], Doubles]) -> Floats:
    """`function` of the rows as doubles, a block at a time, (n,)."""
    found = np.empty(len(rows), np.float32)
    for part in _blocks(rows):
        found[part] = function(rows[part].astype(np.float64))
    return found


def _products(x: Floats, y: Floats) -> Floats:
    """⟨x, y⟩ of rows."""
    products: Floats = np.einsum("...d,...d->...", x, y)
    return products


def _complex_product(x: Floats, y: Floats) -> Floats:
    """x·y, coordinate by coordinate, (…, d): real parts first."""
    (a, b), (c, d) = np.split(x, 2, axis=-1), np.split(y, 2, axis=-1)
    return np.concatenate([a * c - b * d, a * d + b * c], axis=-1)


def _blocks(rows: Floats) -> Iterator[slice]:
    size = max(1, BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), size):
        yield slice(start, start + size)
