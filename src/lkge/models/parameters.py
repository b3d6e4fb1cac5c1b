"""Parameters: a tensor for entities, one for relations, and others by name; their gradient; and
where arrays of ids are placed.

Tensors of the same shapes are used for moments of an optimizer, centres, weights and counts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

Part = TypeVar("Part")


def placed(array: NDArray[Any], device: torch.device | str) -> Tensor:
    """An array of the host as a tensor on `device`; on the CPU they share memory."""
    return torch.from_numpy(array).to(device)


def index(array: NDArray[Any], device: torch.device | str) -> Tensor:
    """Ids of the host as an int64 tensor on `device`, to index with."""
    return torch.from_numpy(array).long().to(device)


def host(tensor: Tensor) -> NDArray[Any]:
    """A tensor as an array of the host; on the CPU they share memory."""
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


@dataclass
class Parts(Generic[Part]):
    """What belongs to entities, to relations with their inverses, and to other parameters of a
    method by name; iterated over in this order, the others by their names."""

    entity: Part
    relation: Part
    extra: dict[str, Part] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Part]:
        yield self.entity
        yield self.relation
        yield from (self.extra[name] for name in sorted(self.extra))


class Parameters(Parts[Tensor]):
    """Rows of entities, (n, …), of relations with their inverses, (2m, …), and of any others."""

    def map(self, function: Callable[..., Tensor], *others: "Parameters") -> "Parameters":
        """`function` of the entity tensors, of the relation tensors, and of each other tensor."""
        return Parameters(
            function(self.entity, *(other.entity for other in others)),
            function(self.relation, *(other.relation for other in others)),
            {
                name: function(table, *(other.extra[name] for other in others))
                for name, table in sorted(self.extra.items())
            },
        )

    def grown_to(self, like: "Parameters") -> "Parameters":
        """These rows first, then the rows of `like` that are not here yet."""
        return Parameters(
            torch.cat([self.entity, like.entity[len(self.entity) :]]),
            torch.cat([self.relation, like.relation[len(self.relation) :]]),
            self.extra,
        )

    @property
    def device(self) -> torch.device:
        return self.entity.device

    def to(self, device: torch.device | str) -> "Parameters":
        return self.map(lambda table: table.to(device))

    def clone(self) -> "Parameters":
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
    def from_named(cls, tensors: Mapping[str, Tensor], prefix: str) -> Self:
        """The parameters that `named` stored under `prefix`."""
        start = f"{prefix}."
        found = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
        return cls(found.pop("entity"), found.pop("relation"), found)


def no_parameters(dim: int, device: str = "cpu") -> Parameters:
    """Parameters without a row."""
    return Parameters(torch.empty(0, dim, device=device), torch.empty(0, dim, device=device))


@dataclass(frozen=True)
class RowGradient:
    """The gradient of one table, sparse by rows.

    `values` has the shape of the table and is zero on every row outside `touched`, one byte a row.
    Fresh zeros take no memory until they are written: a large table costs its touched pages.
    """

    values: Tensor
    touched: Tensor

    @classmethod
    def like(cls, table: Tensor) -> Self:
        """No row touched yet."""
        touched = torch.zeros(len(table), dtype=torch.uint8, device=table.device)
        return cls(torch.zeros_like(table), touched)

    def rows(self) -> Tensor:
        """Touched rows in ascending order, int64, shape (u,)."""
        return self.touched.nonzero().squeeze(1)

    def add(self, rows: Tensor, values: Tensor, weight: float = 1.0) -> None:
        """Add `weight` times `values` (u, d) to distinct `rows` (u,) and mark them touched."""
        self.values.index_add_(0, rows, values, alpha=weight)
        self.touched[rows] = 1

    def scale(self, factor: float) -> None:
        """Multiply the touched rows; where they are many, all rows, as the others are zero."""
        rows = self.rows()
        if 4 * len(rows) >= len(self.values):
            self.values.mul_(factor)
        else:
            self.values[rows] *= factor

    def clear(self, rows: Tensor) -> None:
        """Set the given rows to zero, untouched; with `self.rows()` the gradient is zero."""
        self.values[rows] = 0.0
        self.touched[rows] = 0


class Gradient(Parts[RowGradient]):
    """The row gradients of all parameters."""

    @classmethod
    def like(cls, tables: Parameters) -> Self:
        """No row touched yet."""
        return cls(
            RowGradient.like(tables.entity),
            RowGradient.like(tables.relation),
            {name: RowGradient.like(table) for name, table in tables.extra.items()},
        )
