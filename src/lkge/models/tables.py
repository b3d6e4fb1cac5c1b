"""Rows of entities, of relations and of whatever else is learned: parameters, moments, anchors,
weights, counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from lkge.kernels.rows import RowGradient


@dataclass
class Tables:
    """Rows of entities, (n, …), of relations with their inverses, (2m, …), and of any other
    parameters of a method, by name."""

    entity: Tensor
    relation: Tensor
    extra: dict[str, Tensor] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(
            (self.entity, self.relation, *(self.extra[name] for name in sorted(self.extra)))
        )

    def map(self, function: Callable[..., Tensor], *others: Tables) -> Tables:
        """`function` on the entity tables, then on the relation tables, then on each other."""
        return Tables(
            function(self.entity, *(other.entity for other in others)),
            function(self.relation, *(other.relation for other in others)),
            {
                name: function(table, *(other.extra[name] for other in others))
                for name, table in sorted(self.extra.items())
            },
        )

    def grown_to(self, like: Tables) -> Tables:
        """These rows first, then the entities and relations of `like` that are not here yet."""
        return Tables(
            torch.cat([self.entity, like.entity[len(self.entity) :]]),
            torch.cat([self.relation, like.relation[len(self.relation) :]]),
            self.extra,
        )

    def to(self, device: str) -> Tables:
        """These tables on the given device."""
        return self.map(lambda table: table.to(device))

    def clone(self) -> Tables:
        """A copy with its own memory."""
        return self.map(torch.clone)

    @property
    def nbytes(self) -> int:
        """Memory of all tensors."""
        return sum(table.numel() * table.element_size() for table in self)

    def named(self, prefix: str) -> dict[str, Tensor]:
        """For a file of named tensors; `from_named` is the inverse."""
        named = {"entity": self.entity, "relation": self.relation, **self.extra}
        return {f"{prefix}.{name}": table for name, table in named.items()}

    @classmethod
    def from_named(cls, tensors: Mapping[str, Tensor], prefix: str) -> Tables:
        """The tables that `named` stored under `prefix`."""
        start = f"{prefix}."
        found = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
        return cls(found.pop("entity"), found.pop("relation"), found)


@dataclass
class Gradient:
    """The row gradients of all tables."""

    entity: RowGradient
    relation: RowGradient
    extra: dict[str, RowGradient] = field(default_factory=dict)

    @classmethod
    def like(cls, tables: Tables) -> Gradient:
        """No row touched yet."""
        return cls(
            RowGradient.like(tables.entity),
            RowGradient.like(tables.relation),
            {name: RowGradient.like(table) for name, table in tables.extra.items()},
        )

    def __iter__(self) -> Iterator[RowGradient]:
        return iter(
            (self.entity, self.relation, *(self.extra[name] for name in sorted(self.extra)))
        )


def no_tables(dim: int, device: str = "cpu") -> Tables:
    """Tables without a row."""
    return Tables(torch.empty(0, dim, device=device), torch.empty(0, dim, device=device))
