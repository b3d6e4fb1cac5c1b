"""Score functions, pure. A higher score means a more plausible fact."""

from __future__ import annotations

from typing import ClassVar, Protocol

import torch
from torch import Tensor

from lkge.errors import UnknownName


class Score(Protocol):
    """What the rest of the house asks of a score function; all shapes broadcast over (…, d)."""

    name: ClassVar[str]

    def prepare(self, rows: Tensor) -> Tensor:
        """Rows as the score wants them, for example normalised; applied once, before scoring."""
        ...

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """Plausibility of (h, r, t) from prepared rows, shape (…)."""
        ...

    def compose(self, head: Tensor, relation: Tensor) -> Tensor:
        """Where (h, r) expects its tail to be: the query vector, shape (…, d)."""
        ...

    def decompose(self, relation: Tensor, tail: Tensor) -> Tensor:
        """Where (r, t) expects its head to be: the paper's f_sub, shape (…, d)."""
        ...

    def relate(self, head: Tensor, tail: Tensor) -> Tensor:
        """The relation that leads from h to t: the paper's f_rel, shape (…, d)."""
        ...


class TransE:
    """A relation is a translation: f(h, r, t) = -‖ĥ + r̂ - t̂‖₁ on L2-normalised rows."""

    name: ClassVar[str] = "transe"

    def prepare(self, rows: Tensor) -> Tensor:
        """x̂ = x / max(‖x‖₂, 1e-12)."""
        return torch.nn.functional.normalize(rows, dim=-1)

    def score(self, head: Tensor, relation: Tensor, tail: Tensor) -> Tensor:
        """-‖h + r - t‖₁."""
        return -(head + relation - tail).abs().sum(-1)

    def compose(self, head: Tensor, relation: Tensor) -> Tensor:
        """h + r."""
        return head + relation

    def decompose(self, relation: Tensor, tail: Tensor) -> Tensor:
        """t - r."""
        return tail - relation

    def relate(self, head: Tensor, tail: Tensor) -> Tensor:
        """t - h."""
        return tail - head


SCORES: dict[str, type[TransE]] = {TransE.name: TransE}


def score_named(name: str) -> Score:
    """The score function of that name."""
    if name not in SCORES:
        raise UnknownName("score", name, SCORES)
    return SCORES[name]()
