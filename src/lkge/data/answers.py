"""Known answers: which objects a (subject, relation) has, and since which snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from lkge.data.snapshots import Facts, no_facts, with_inverses


@dataclass(frozen=True)
class KnownAnswers:
    """Answers of K queries in compressed rows, A facts in all, inverse facts included.

    keys     (K,)     int64, sorted: subject · 2³² + relation
    offsets  (K + 1,) int64: the answers of keys[k] are answers[offsets[k] : offsets[k + 1]]
    answers  (A,)     int32, sorted within a key
    since    (A,)     int32: the first snapshot that holds the fact
    """

    keys: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int32]
    since: npt.NDArray[np.int32]

    @classmethod
    def build(cls, facts_by_snapshot: Sequence[Facts]) -> Self:
        """From the facts of each snapshot, without inverses; these are added here."""
        facts = np.concatenate([no_facts(), *map(with_inverses, facts_by_snapshot)])
        sizes = [2 * len(new) for new in facts_by_snapshot]
        snapshots = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        packed = pack(facts[:, 0], facts[:, 1])
        order = np.lexsort((snapshots, facts[:, 2], packed))
        packed, objects, snapshots = packed[order], facts[order, 2], snapshots[order]
        first = _starts_run(packed) | _starts_run(objects)
        packed, objects, snapshots = packed[first], objects[first], snapshots[first]
        starts = np.flatnonzero(_starts_run(packed))
        return cls(
            keys=packed[starts],
            offsets=np.append(starts, len(packed)).astype(np.int64),
            answers=np.ascontiguousarray(objects, dtype=np.int32),
            since=snapshots,
        )

    def lookup(
        self, subjects: npt.ArrayLike, relations: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the answers of n queries start and stop, shapes (n,); equal where unknown."""
        wanted = pack(subjects, relations)
        places = np.searchsorted(self.keys, wanted)
        known = np.append(self.keys, np.int64(-1))[places] == wanted
        starts = self.offsets[places]
        stops = np.where(known, self.offsets[np.minimum(places + 1, len(self.keys))], starts)
        return starts, stops

    def of(self, subject: int, relation: int, until: int) -> npt.NDArray[np.int32]:
        """The objects of one query that are known by snapshot `until`, sorted."""
        starts, stops = self.lookup([subject], [relation])
        row = slice(int(starts[0]), int(stops[0]))
        return self.answers[row][self.since[row] <= until]


def pack(subjects: npt.ArrayLike, relations: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """subject · 2³² + relation, element by element."""
    return (np.asarray(subjects, dtype=np.int64) << 32) | np.asarray(relations, dtype=np.int64)


def _starts_run(values: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    """True where a value differs from the one before it; the first always does."""
    starts = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return starts
