"""Score functions, pure. A higher score means a more plausible fact.

Rows are real. Where coordinates are complex, the first half of a row holds their real parts and the
second half their imaginary parts.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from lkge.config import RunConfig
from lkge.errors import SettingsError, UnknownName

EPSILON = 1e-12


class Score(ABC):
    """A score function; all shapes broadcast over (…, d).

    `score`, `compose` and `candidates` take prepared rows. `decompose` and `relate` take rows as
    they are learned, prepared or not, and give such rows: LKGE rebuilds and transfers with them.
    """

    name: ClassVar[str]
    reals: ClassVar[int] = 1
    """Reals of a coordinate: 1, or 2 where coordinates are complex."""
    is_bilinear: ClassVar[bool] = False
    """Whether `candidates` is queries @ entity.T."""

    def prepare_entities(self, rows: Tensor) -> Tensor:
        """Rows as the score wants them, for example normalised; applied once, before scoring."""
        return rows

    def prepare_relations(self, rows: Tensor) -> Tensor:
        """The same for relations."""
        return rows

    @abstractmethod
    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Plausibility of (h, r, t), shape (…)."""

    @abstractmethod
    def candidates(self, queries: Tensor, entity: Tensor) -> Tensor:
        """The score of every entity (n, d) as the tail of every query compose(h, r) (q, d),
        shape (q, n)."""

    @abstractmethod
    def compose(self, head: Tensor, relation: Tensor) -> Tensor:
        """Where (h, r) expects its tail to be: the query vector, shape (…, d)."""

    @abstractmethod
    def decompose(self, relation: Tensor, tail: Tensor) -> Tensor:
        """Where (r, t) expects its head to be: the paper's f_sub, shape (…, d)."""

    @abstractmethod
    def relate(self, head: Tensor, tail: Tensor) -> Tensor:
        """The relation that leads from h to t: the paper's f_rel, shape (…, d)."""

    @abstractmethod
    def identity(self, dim: int) -> Tensor:
        """The relation that leads from every h to itself, (d,): compose(h, r) = h."""


class Translation(Score):
    """A relation is a translation of L2-normalised rows."""

    def prepare_entities(self, rows: Tensor) -> Tensor:
        """x̂ = x / max(‖x‖₂, 1e-12)."""
        return functional.normalize(rows, dim=-1)

    prepare_relations = prepare_entities

    def compose(self, head: Tensor, relation: Tensor) -> Tensor:
        return head + relation

    def decompose(self, relation: Tensor, tail: Tensor) -> Tensor:
        return tail - relation

    def relate(self, head: Tensor, tail: Tensor) -> Tensor:
        return tail - head

    def identity(self, dim: int) -> Tensor:
        return torch.zeros(dim)


class TransE(Translation):
    """f(h, r, t) = -‖ĥ + r̂ - t̂‖₁."""

    name = "transe"

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return -(head + relation - tail).abs().sum(-1)

    def candidates(self, queries: Tensor, entity: Tensor) -> Tensor:
        return -torch.cdist(queries, entity, p=1)


class TransEL2(Translation):
    """f(h, r, t) = -‖ĥ + r̂ - t̂‖₂."""

    name = "transe-l2"

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return -lengths(head + relation - tail).squeeze(-1)

    def candidates(self, queries: Tensor, entity: Tensor) -> Tensor:
        """-‖q - e‖₂, from differences: a matrix product would lose the digits of near rows."""
        return -torch.cdist(queries, entity, p=2, compute_mode="donot_use_mm_for_euclid_dist")


class Bilinear(Score):
    """f(h, r, t) = ⟨h·r, t⟩: the products of coordinates, and a real inner product.

    What `decompose` and `relate` give has the highest score of all rows of its length, which is
    that of the rows it is made from.
    """

    is_bilinear = True

    @abstractmethod
    def towards(self, start: Tensor, tail: Tensor) -> Tensor:
        """∂⟨start·x, t⟩/∂x, (…, d): the direction in which the score grows."""

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return (self.compose(head, relation) * tail).sum(-1)

    def candidates(self, queries: Tensor, entity: Tensor) -> Tensor:
        return queries @ entity.T

    def decompose(self, relation: Tensor, tail: Tensor) -> Tensor:
        """Along ∂f/∂h, as long as t."""
        return functional.normalize(self.towards(relation, tail), dim=-1) * lengths(tail)

    def relate(self, head: Tensor, tail: Tensor) -> Tensor:
        """Along ∂f/∂r, as long as h and t in the mean."""
        length = (lengths(head) + lengths(tail)) / 2
        return functional.normalize(self.towards(head, tail), dim=-1) * length


class DistMult(Bilinear):
    """f(h, r, t) = Σ h r t on real coordinates (Yang et al., 2015)."""

    name = "distmult"

    def compose(self, head: Tensor, relation: Tensor) -> Tensor:
        return head * relation

    def towards(self, start: Tensor, tail: Tensor) -> Tensor:
        return start * tail

    def identity(self, dim: int) -> Tensor:
        return torch.ones(dim)


class ComplexProduct(Score):
    """A relation multiplies complex coordinates."""

    reals = 2

    def compose(self, head: Tensor, relation: Tensor) -> Tensor:
        return complex_product(head, relation)

    def identity(self, dim: int) -> Tensor:
        return torch.cat([torch.ones(dim // 2), torch.zeros(dim // 2)])


class ComplEx(ComplexProduct, Bilinear):
    """f(h, r, t) = Re Σ h r t̄ on complex coordinates (Trouillon et al., 2016)."""

    name = "complex"

    def towards(self, start: Tensor, tail: Tensor) -> Tensor:
        """The conjugate of start, times t."""
        return conjugate_product(start, tail)


class RotatE(ComplexProduct):
    """A relation turns complex coordinates: f(h, r, t) = -Σ |h r̂ - t|, r̂ = r / |r| (Sun et al.,
    2019)."""

    name = "rotate"

    def prepare_relations(self, rows: Tensor) -> Tensor:
        """r̂: every coordinate has modulus one."""
        return phases(rows)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        return -complex_abs(self.compose(head, relation) - tail).sum(-1)

    def candidates(self, queries: Tensor, entity: Tensor) -> Tensor:
        return -complex_abs(queries[:, None] - entity).sum(-1)

    def decompose(self, relation: Tensor, tail: Tensor) -> Tensor:
        """t turned back: t times the conjugate of r̂."""
        return conjugate_product(phases(relation), tail)

    def relate(self, head: Tensor, tail: Tensor) -> Tensor:
        """The turn from h to t: the phase of t times the conjugate of h."""
        return phases(conjugate_product(head, tail))


SCORES: Mapping[str, type[Score]] = {
    score.name: score for score in (TransE, TransEL2, DistMult, ComplEx, RotatE)
}


def score_named(name: str) -> Score:
    """The score function of that name."""
    if name not in SCORES:
        raise UnknownName("score", name, SCORES)
    return SCORES[name]()


def score_of(config: RunConfig) -> Score:
    """The score function of a run, whose rows must have whole coordinates."""
    score = score_named(config.model.score)
    if config.model.dim % score.reals:
        raise SettingsError(
            f"score = {config.model.score!r} has complex coordinates, each of two reals, and "
            f"dim = {config.model.dim} is odd; choose an even --dim"
        )
    return score


# Arithmetic of complex coordinates in real rows (…, d).


def complex_product(x: Tensor, y: Tensor) -> Tensor:
    """x·y, coordinate by coordinate, (…, d)."""
    (a, b), (c, d) = x.chunk(2, dim=-1), y.chunk(2, dim=-1)
    return torch.cat([torch.addcmul(a * c, b, d, value=-1), torch.addcmul(a * d, b, c)], dim=-1)


def conjugate_product(x: Tensor, y: Tensor) -> Tensor:
    """x̄·y, coordinate by coordinate, (…, d)."""
    (a, b), (c, d) = x.chunk(2, dim=-1), y.chunk(2, dim=-1)
    return torch.cat([torch.addcmul(a * c, b, d), torch.addcmul(a * d, b, c, value=-1)], dim=-1)


def phases(x: Tensor) -> Tensor:
    """x / max(|x|, 1e-12), coordinate by coordinate, (…, d): all of modulus one."""
    sizes = complex_abs(x).clamp(min=EPSILON)
    return x / torch.cat([sizes, sizes], dim=-1)


def moduli(x: Tensor, reals: int) -> Tensor:
    """|x| of each coordinate, (…, d / reals), where a coordinate is one real or two."""
    return complex_abs(x) if reals == 2 else x.abs()


def complex_abs(x: Tensor) -> Tensor:
    """|x| of each complex coordinate, (…, d / 2), many times as fast as a norm over two numbers.
    Below the root of the least number it is that root, and has no gradient."""
    real, imaginary = x.chunk(2, dim=-1)
    squares = real * real + imaginary * imaginary
    return squares.clamp(min=torch.finfo(x.dtype).tiny).sqrt()


def lengths(rows: Tensor) -> Tensor:
    """‖x‖₂ of rows (…, d), (…, 1); where it is zero, so is its gradient."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return norms
