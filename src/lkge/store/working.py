"""A few rows of a large graph, numbered anew, on which a few facts are learned.

The rows that new facts name, and a sample of the others, to draw negatives and candidates from or
to take a softmax over, are a small graph of their own: old entities first, in order, then the new
ones. A method that works row by row learns there as it would in the whole, and every other row
stays as it is, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, with_inverses
from lkge.store.arrays import taken

Ids = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]

POOL = 3_000
"""Entities that stand for all others, at least; the whole graph where it has no more."""
POOL_PER_FACT = 3
"""Entities of the pool for each new fact, where there are many."""


@dataclass(frozen=True)
class Rows:
    """Entities `ids` (w,), ascending, of which the first `num_old` have been learned before."""

    ids: Ids
    num_old: int

    def __len__(self) -> int:
        return len(self.ids)

    def local(self, facts: Facts) -> Facts:
        """Facts in the numbers of these rows; all their entities are among them."""
        places = np.searchsorted(self.ids, facts[:, (0, 2)]).astype(np.int32)
        return np.stack([places[:, 0], facts[:, 1], places[:, 1]], axis=1)

    def known(self, answers: KnownFacts, asked: Facts) -> Facts:
        """Those known answers of the questions of `asked`, in both directions, that are among
        these rows; as facts in the numbers of these rows."""
        questions = np.unique(with_inverses(asked)[:, :2], axis=0)
        starts, stops = answers.lookup(questions[:, 0], questions[:, 1])
        sizes = stops - starts
        items = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        facts = np.column_stack([np.repeat(questions, sizes, axis=0), answers.answers[items]])
        present = np.isin(facts[:, 2], self.ids) & np.isin(facts[:, 0], self.ids)
        return self.local(facts[present].astype(np.int32))

    def of_state(self, arrays: Arrays) -> dict[str, Tensor]:
        """The old among these rows of tables by entity, and all of every other array."""
        old = self.ids[: self.num_old]
        return {
            name: torch.from_numpy(taken(array, old) if is_by_entity(name) else np.array(array))
            for name, array in arrays.items()
        }


def is_by_entity(name: str) -> bool:
    """Whether an array of that name has a row for each entity."""
    return name.endswith(".entity")


def all_rows(num_old: int, num_entities: int) -> Rows:
    """Every entity."""
    return Rows(np.arange(num_entities, dtype=np.int64), num_old)


def working_rows(
    facts: Facts, num_old: int, num_entities: int, generator: np.random.Generator
) -> Rows:
    """The entities of `facts`, all new ones, and a pool of old ones drawn without replacement."""
    pool = max(POOL, POOL_PER_FACT * len(facts))
    if num_old <= pool:
        return all_rows(num_old, num_entities)
    named = facts[:, (0, 2)].ravel().astype(np.int64)
    drawn = generator.choice(num_old, pool, replace=False, shuffle=False)
    old = np.unique(np.concatenate([named[named < num_old], drawn]))
    return Rows(np.append(old, np.arange(num_old, num_entities)), len(old))
