"""Facts by the question that they ask, and whom their objects compete with, as kernels want them.

Facts (s, r, ·) share a question, whatever their object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts

Ints = NDArray[np.int32]
Places = NDArray[np.int64]


class Questions(NamedTuple):
    """Facts (b, 3) such that those with one question stand together, and the place where each was
    given, (b,); a fact of each question, (q, 3). The facts of question q are `bounds[q]` up to
    `bounds[q + 1]`, bounds (q + 1,)."""

    facts: Facts
    given: Places
    distinct: Facts
    bounds: Places

    @classmethod
    def of(cls, facts: Facts) -> Questions:
        """Facts in any order."""
        given = np.lexsort((facts[:, 1], facts[:, 0]))
        facts = facts[given]
        asked = np.append(True, np.any(facts[1:, :2] != facts[:-1, :2], axis=1))[: len(facts)]
        bounds = np.append(np.flatnonzero(asked), len(facts))
        return cls(facts, given, facts[asked], bounds)

    @property
    def targets(self) -> Ints:
        """The object of each fact, (b,)."""
        return np.ascontiguousarray(self.facts[:, 2])

    @property
    def numbers(self) -> Ints:
        """The question of each fact, (b,)."""
        return np.repeat(np.arange(len(self.distinct), dtype=np.int32), np.diff(self.bounds))

    def as_given(self, counts: Places) -> Places:
        """Counts (b, p) of the facts in the order in which they were given."""
        ordered = np.empty_like(counts)
        ordered[self.given] = counts
        return ordered


class Rivals(NamedTuple):
    """Who competes with a fact's object in each of p views: the entities below `limits` (p,),
    without those of `answers[starts[q]:stops[q]]` known `since` snapshot `until` (p,) or before;
    starts and stops (q,) are those of each question."""

    limits: Ints
    starts: Places
    stops: Places
    answers: Ints
    since: Ints
    until: Ints

    @classmethod
    def of(
        cls, limits: Sequence[int], until: Sequence[int], asked: Questions, answers: KnownFacts
    ) -> Rivals:
        """The rivals in these views for these questions."""
        return cls(
            np.array(limits, dtype=np.int32),
            *answers.lookup(asked.distinct[:, 0], asked.distinct[:, 1]),
            answers.answers,
            answers.since,
            np.array(until, dtype=np.int32),
        )

    def at(self, part: slice) -> Rivals:
        """The same for some of the questions."""
        return self._replace(starts=self.starts[part], stops=self.stops[part])
