"""Facts grouped by their query (s, r, ·), and the candidates of each query."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lkge.data.array_types import Ints, Places
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts


class GroupedQueries(NamedTuple):
    """Facts (b, 3) such that those with the same query stand together, and the place where each was
    given, (b,); one fact of each query, (q, 3). The facts of query q are `bounds[q]` up to
    `bounds[q + 1]`, bounds (q + 1,)."""

    facts: Facts
    given: Places
    distinct: Facts
    bounds: Places

    @classmethod
    def of(cls, facts: Facts) -> Self:
        """Facts in any order."""
        given = np.lexsort((facts[:, 1], facts[:, 0]))
        facts = facts[given]
        first = np.append(True, np.any(facts[1:, :2] != facts[:-1, :2], axis=1))[: len(facts)]
        bounds = np.append(np.flatnonzero(first), len(facts))
        return cls(facts, given, facts[first], bounds)

    @property
    def targets(self) -> Ints:
        """The object of each fact, (b,)."""
        return np.ascontiguousarray(self.facts[:, 2])

    @property
    def numbers(self) -> Ints:
        """The query of each fact, (b,)."""
        return np.repeat(np.arange(len(self.distinct), dtype=np.int32), np.diff(self.bounds))

    def as_given(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values (b, p) of the facts in the order in which they were given."""
        ordered = np.empty_like(values)
        ordered[self.given] = values
        return ordered


class Candidates(NamedTuple):
    """The entities that are ranked with the object of a fact, in each of p views: those below
    `limits` (p,), without those of `answers[starts[q]:stops[q]]` known `since` snapshot `until`
    (p,) or before; starts and stops (q,) are those of each query."""

    limits: Ints
    starts: Places
    stops: Places
    answers: Ints
    since: Ints
    until: Ints

    @classmethod
    def of(cls, views: Sequence[tuple[int, int]], queries: Facts, answers: KnownFacts) -> Self:
        """The candidates in views (limit, until) for distinct queries (q, ≥ 2)."""
        limits, until = np.array(views, dtype=np.int32).T.copy()
        starts, stops = answers.lookup(queries[:, 0], queries[:, 1])
        return cls(limits, starts, stops, answers.answers, answers.since, until)

    def at(self, part: slice) -> Self:
        """The same for some of the queries."""
        return self._replace(starts=self.starts[part], stops=self.stops[part])
