"""Which row of which shard an entity has, and when which pair of shards is trained.

With n shards, n even, an epoch has n - 1 rounds. A round has n / 2 pairs of shards, in which each
shard is once, so that workers never share one; after all rounds each shard has met each other (the
circle method of a tournament). The facts of a pair (a, b) are the blocks (a, b) and (b, a), and
each (n - 1)th fact of the blocks (a, a) and (b, b): all pairs have about 2 / (n (n - 1)) of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lkge.data.array_types import Ints, Places
from lkge.data.snapshots import Facts
from lkge.models.model import PARTITION, stream

MOST = 256
"""Shards, at most: pairs are numbered with 16 bits."""

Ids = NDArray[np.integer]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Partition:
    """Each entity has a place, (N,): shard = place mod n, row = place // n. Places are dealt out at
    random, to the entities of a snapshot before those of the next: so the first N_j entities have
    the first rows of each shard. They are dealt anew for each epoch, `dealt` being its snapshot and
    its number."""

    shards: int
    places: Ints
    dealt: Pair = (0, 0)

    @classmethod
    def of(
        cls, shards: int, entities: Sequence[int], seed: int, dealt: Pair = (0, 0)
    ) -> "Partition":
        """Of a graph that has so many `entities` after each of its snapshots."""
        places, known = [], 0
        for index, number in enumerate(entities):
            generator = stream(seed, PARTITION, *dealt, index)
            places.append((known + generator.permutation(number - known)).astype(np.int32))
            known = number
        return cls(shards, np.concatenate(places), dealt)

    def shard(self, entities: Ids) -> Ints:
        """The shard of each entity."""
        shards: Ints = self.places[entities] % self.shards
        return shards

    def row(self, entities: Ids) -> Ints:
        """The row of each entity in its shard."""
        rows: Ints = self.places[entities] // self.shards
        return rows

    def rows(self, shard: int, entities: int) -> int:
        """The rows in a shard of the first so many entities."""
        return (entities - shard + self.shards - 1) // self.shards

    def members(self, shard: int, entities: int) -> Places:
        """The entities of a shard in the order of rows, of the first so many."""
        return self._entities[shard : entities : self.shards]

    @cached_property
    def _entities(self) -> Places:
        return np.argsort(self.places)

    @cached_property
    def rounds(self) -> list[list[Pair]]:
        """The pairs of each round, in an order in which neighbours swap shards between rounds."""
        last, half = self.shards - 1, self.shards // 2
        return [
            [(turn, last)]
            + [
                tuple_of((turn + step) % last, (turn - step) % last)
                for step in range(1, half)
            ]
            for turn in range(last)
        ]  # fmt: skip

    def by_pair(self, facts: Facts, epoch: int) -> Iterator[list[Facts]]:
        """For each round the facts of each of its pairs. A fact within one shard is trained with
        another pair in each epoch."""
        first, second = self.shard(facts[:, 0]), self.shard(facts[:, 2])
        turns = np.arange(len(facts)) + epoch
        partners = (first + 1 + turns % (self.shards - 1)) % self.shards
        numbers = self._numbers[first, np.where(first == second, partners, second)]
        order = np.argsort(numbers, kind="stable")
        half = self.shards // 2
        bounds = np.searchsorted(numbers[order], np.arange(half * (self.shards - 1) + 1))
        for turn in range(self.shards - 1):
            ends = bounds[turn * half : (turn + 1) * half + 1]
            yield [facts[order[start:stop]] for start, stop in pairwise(ends)]

    @cached_property
    def _numbers(self) -> NDArray[np.int16]:
        """The number of each pair among those of all rounds, (n, n)."""
        numbers = np.zeros((self.shards, self.shards), dtype=np.int16)
        pairs = (pair for turn in self.rounds for pair in turn)
        for number, (first, second) in enumerate(pairs):
            numbers[first, second] = numbers[second, first] = number
        return numbers


def tuple_of(first: int, second: int) -> Pair:
    """The pair, the smaller shard first."""
    return min(first, second), max(first, second)
