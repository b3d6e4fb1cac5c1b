"""What has joined a growing graph so far, and uniform draws from what has not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lkge.data.snapshots import Facts

NOTHING = -1
"""What a draw from an empty pool gives."""

Rows = npt.NDArray[np.int64]
"""Row numbers of a fact array."""


class State:
    """What has joined. Items are numbered: facts from 0, then entities, then relations."""

    def __init__(self, facts: Facts, rng: np.random.Generator):
        entities, ends = np.unique(facts[:, [0, 2]], return_inverse=True)
        relations, kinds = np.unique(facts[:, 1], return_inverse=True)
        self.total = {"fact": len(facts), "entity": len(entities), "relation": len(relations)}
        self.count = dict.fromkeys(self.total, 0)
        self.first_entity = len(facts)
        self.first_relation = len(facts) + len(entities)
        self.num_items = self.first_relation + len(relations)
        subjects, objects = ends.reshape(-1, 2).T + self.first_entity
        labels = kinds.ravel() + self.first_relation
        self.parts: Rows = np.stack([subjects, labels, objects], axis=1)
        self.joined = np.zeros(self.num_items, dtype=np.bool_)
        self.joined_facts = self.joined[: self.first_entity]
        self.draw = _uniforms(rng).__next__
        self._holders, self._starts = self._held()

    @property
    def loops(self) -> npt.NDArray[np.bool_]:
        """Which facts have one entity at both ends."""
        return np.equal(self.parts[:, 0], self.parts[:, 2])

    def _held(self) -> tuple[Rows, Rows]:
        """The facts that hold each part, part by part, and where those of each part start."""
        rows = np.arange(self.first_entity)
        straight = ~self.loops
        parts = np.concatenate([self.parts[:, 0], self.parts[:, 1], self.parts[straight, 2]])
        holders = np.concatenate([rows, rows, rows[straight]])
        order = np.argsort(parts, kind="stable")
        starts = np.searchsorted(parts[order], np.arange(self.first_entity, self.num_items + 1))
        return holders[order], starts

    def holders(self, part: int) -> Rows:
        """The facts that have this entity or relation, each once."""
        at = part - self.first_entity
        return self._holders[self._starts[at] : self._starts[at + 1]]

    def pool(self, items: Iterable[int] = ()) -> Pool:
        """A pool from which whatever joins disappears."""
        return Pool(list(items), self.joined, self.draw)

    def see(self, part: int) -> None:
        """Let an unseen entity or relation join."""
        self.joined[part] = True
        self.count["entity" if part < self.first_relation else "relation"] += 1

    def add(self, row: int) -> list[int]:
        """Let a fact join; its entities and relation that were unseen until then."""
        self.joined[row] = True
        self.count["fact"] += 1
        fresh = [part for part in set(self.parts[row].tolist()) if not self.joined[part]]
        for part in fresh:
            self.see(part)
        return fresh


@dataclass(frozen=True)
class Pool:
    """Items to draw from uniformly. One that has joined is passed over, and leaves."""

    items: list[int]
    joined: npt.NDArray[np.bool_]
    draw: Callable[[], float]

    def pick(self) -> int:
        """An item that has not joined, or `NOTHING` when all have."""
        items = self.items
        while items:
            at = int(self.draw() * len(items))
            if not self.joined[items[at]]:
                return items[at]
            items[at] = items[-1]
            items.pop()
        return NOTHING


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    """Numbers from [0, 1), drawn in blocks for speed."""
    while True:
        yield from rng.random(4096).tolist()
