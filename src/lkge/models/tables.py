"""One tensor for entities and one for relations: parameters, moments, anchors, weights, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lkge.kernels.rows import RowGradient


@dataclass
class Tables:
    """Rows of entities, (n, …), and of relations with their inverses, (2m, …)."""

    entity: Tensor
    relation: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.entity, self.relation))

    def map(self, function: Callable[..., Tensor], *others: Tables) -> Tables:
        """`function` on the entity tables, then on the relation tables."""
        return Tables(
            function(self.entity, *(other.entity for other in others)),
            function(self.relation, *(other.relation for other in others)),
        )

    def grown_to(self, like: Tables) -> Tables:
        """These rows first, then the rows of `like` that are not here yet."""
        return self.map(lambda mine, theirs: torch.cat([mine, theirs[len(mine) :]]), like)

    def to(self, device: str) -> Tables:
        """These tables on the given device."""
        return self.map(lambda table: table.to(device))

    def clone(self) -> Tables:
        """A copy with its own memory."""
        return self.map(torch.clone)

    @property
    def nbytes(self) -> int:
        """Memory of both tensors."""
        return sum(table.numel() * table.element_size() for table in self)

    def named(self, prefix: str) -> dict[str, Tensor]:
        """For a file of named tensors; `from_named` is the inverse."""
        return {f"{prefix}.entity": self.entity, f"{prefix}.relation": self.relation}

    @classmethod
    def from_named(cls, tensors: Mapping[str, Tensor], prefix: str) -> Tables:
        """The tables that `named` stored under `prefix`."""
        return cls(tensors[f"{prefix}.entity"], tensors[f"{prefix}.relation"])


@dataclass
class Gradient:
    """The row gradients of both tables."""

    entity: RowGradient
    relation: RowGradient

    @classmethod
    def like(cls, tables: Tables) -> Gradient:
        """No row touched yet."""
        return cls(RowGradient.like(tables.entity), RowGradient.like(tables.relation))

    def __iter__(self) -> Iterator[RowGradient]:
        return iter((self.entity, self.relation))


def no_tables(dim: int, device: str = "cpu") -> Tables:
    """Tables without a row."""
    return Tables(torch.empty(0, dim, device=device), torch.empty(0, dim, device=device))
