"""The subgraph of an update: the rows that a few facts need, out of a large graph and back.

A subgraph has the entities of the new facts and a sample of the others, for negatives, candidates
and softmax. Its local ids are 0 … w-1: old entities first, in order, then the new ones. A method
that supports partial updates trains on it as on the whole graph; rows outside keep every bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts, places_of
from lkge.data.snapshots import Facts
from lkge.store.arrays import Array, Patched, taken

if TYPE_CHECKING:
    import torch

Ids = NDArray[np.int64]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Subgraph:
    """Entities `ids` (w,), ascending; the first `num_old` are in the last version."""

    ids: Ids
    num_old: int

    def __len__(self) -> int:
        return len(self.ids)

    def local(self, facts: Facts) -> Facts:
        """Facts with local ids; all their entities are in the subgraph."""
        return places_of(facts, self.ids)

    def known_facts(self, answers: KnownFacts, facts: Facts) -> Facts:
        """The known answers, within the subgraph, to the queries of `facts` in both directions; as
        facts with local ids."""
        return answers.within(facts, self.ids)

    def rows(self, arrays: Arrays) -> dict[str, torch.Tensor]:
        """The old rows of the subgraph of arrays by entity, and all of every other array."""
        import torch

        old = self.ids[: self.num_old]
        return {
            name: torch.from_numpy(taken(array, old) if is_by_entity(name) else np.array(array))
            for name, array in arrays.items()
        }

    def merged(self, before: Array, after: NDArray[Any]) -> Array:
        """The table of the whole graph: `after` (w, …) on the rows of the subgraph, `before` on all
        others. A row that did not change is not written."""
        if self.num_old == len(before):
            return after
        old, new = after[: self.num_old], after[self.num_old :]
        ids = self.ids[: self.num_old]
        differs = (taken(before, ids) != old).reshape(self.num_old, -1).any(axis=1)
        return Patched(before, ids[differs], old[differs], new)

    def merged_arrays(
        self, before: Arrays, after: Mapping[str, torch.Tensor], num_old: int
    ) -> dict[str, Array]:
        """Arrays of the whole graph after an update; `num_old` entities were there before. An array
        by entity that is new is zero on all other rows."""
        from lkge.models.parameters import host

        arrays = {name: host(tensor) for name, tensor in after.items()}
        merged: dict[str, Array] = dict(arrays)
        for name in filter(is_by_entity, arrays):
            array = arrays[name]
            zeros = np.broadcast_to(array.dtype.type(0), (num_old, *array.shape[1:]))
            merged[name] = self.merged(before.get(name, zeros), array)
        return merged


def is_by_entity(name: str) -> bool:
    """Whether an array of that name has a row for each entity."""
    return name == "entity" or name.endswith(".entity")


def whole_graph(num_old: int, num_entities: int) -> Subgraph:
    """Every entity."""
    return Subgraph(np.arange(num_entities, dtype=np.int64), num_old)


def choose_subgraph(
    facts: Facts, num_old: int, num_entities: int, generator: np.random.Generator, sample: int
) -> Subgraph:
    """The entities of `facts`, all new ones, and `sample` old ones, without replacement."""
    if num_old <= sample:
        return whole_graph(num_old, num_entities)
    named = facts[:, (0, 2)].ravel().astype(np.int64)
    drawn = generator.choice(num_old, sample, replace=False, shuffle=False)
    old = np.unique(np.concatenate([named[named < num_old], drawn]))
    return Subgraph(np.append(old, np.arange(num_old, num_entities)), len(old))
