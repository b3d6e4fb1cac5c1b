"""All known facts as an index from a query (subject, relation) to its objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from lkge.data.names import require_fit, stored_array
from lkge.data.snapshots import Facts, no_facts, with_inverses

Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_RELATION = (1 << 32) - 1
"""The bits of a packed query that are the relation."""


@dataclass(frozen=True)
class KnownFacts:
    """The objects ("answers") of K queries in CSR form; A facts in total, inverse facts included.

    keys     (K,)     int64, sorted: subject · 2³² + relation
    offsets  (K + 1,) int64: the answers of keys[k] are answers[offsets[k] : offsets[k + 1]]
    answers  (A,)     int32, sorted within a key
    since    (A,)     int32: the first snapshot that has the fact
    """

    keys: Ints
    offsets: Ints
    answers: Ids
    since: Ids

    @classmethod
    def build(cls, facts_by_snapshot: Sequence[Facts]) -> "KnownFacts":
        """The index of the facts of all snapshots. `build` adds the inverse facts."""
        facts = np.concatenate([no_facts(), *map(with_inverses, facts_by_snapshot)])
        sizes = [2 * len(new) for new in facts_by_snapshot]
        snapshots = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        queries, objects, rows = _distinct(facts)
        return _of_rows(queries, objects, snapshots[rows])

    @property
    def num_facts(self) -> int:
        """The number of facts without inverse facts."""
        return self.num_answers // 2

    @property
    def num_answers(self) -> int:
        """A, the number of places of `entries`."""
        return len(self.answers)

    def entries(self, places: Ints) -> tuple[Ints, Ids, Ids]:
        """The packed query, the object and the `since` at some places, as `lookup` and `spans_of`
        give them, from 0 to below A; each (n,)."""
        queries = self.keys[np.searchsorted(self.offsets, places, side="right") - 1]
        return queries, self.answers[places], self.since[places]

    def lookup(self, subjects: npt.ArrayLike, relations: npt.ArrayLike) -> tuple[Ints, Ints]:
        """Start and stop of the answers of n queries, shapes (n,); equal if a query is unknown."""
        return self._spans(pack(subjects, relations))

    def spans_of(self, subjects: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
        """Start and stop of the answers of all queries of each subject, shapes (n,)."""
        ids = subjects.astype(np.int64)
        return self._bounds(pack(ids, 0), "left"), self._bounds(pack(ids, _RELATION), "right")

    def of(self, subject: int, relation: int, until: int) -> Ids:
        """The sorted objects of one query that are known by snapshot `until`."""
        starts, stops = self.lookup([subject], [relation])
        row = slice(int(starts[0]), int(stops[0]))
        return self.answers[row][self.since[row] <= until]

    def subjects_of(self, relation: int) -> Ids:
        """The sorted subjects of all facts of one relation. Takes a pass over the K queries."""
        found: Ids = (self.keys[(self.keys & _RELATION) == relation] >> 32).astype(np.int32)
        return found

    def answer_counts(self, relation: int) -> Ints:
        """The number of answers of each query of one relation. Takes a pass over the K queries."""
        places = np.flatnonzero((self.keys & _RELATION) == relation)
        return self.offsets[places + 1] - self.offsets[places]

    def contains(self, facts: Facts) -> Mask:
        """For each of n facts whether it is known; shape (n,)."""
        return self._places(pack(facts[:, 0], facts[:, 1]), facts[:, 2])[1]

    def within(self, facts: Facts, entities: Ints) -> Facts:
        """The known answers to the queries of n facts in both directions, as facts (k, 3); those
        of two of the given entities (w,), ascending and distinct, under their places there."""
        queries = np.unique(with_inverses(facts)[:, :2], axis=0)
        starts, stops = self.lookup(queries[:, 0], queries[:, 1])
        sizes = stops - starts
        items = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        known = np.column_stack([np.repeat(queries, sizes, axis=0), self.entries(items)[1]])
        present = np.isin(known[:, (0, 2)], entities).all(axis=1)
        return places_of(known[present].astype(np.int32), entities)

    def around(self, entity: int, limit: int | None = None) -> tuple[Facts, Ids]:
        """The first k facts (k, 3) with the subject `entity`, inverse facts included, sorted by
        relation and object; and their `since` (k,)."""
        (start,), (stop,) = self.spans_of(np.array([entity]))
        places = np.arange(start, stop if limit is None else min(start + limit, stop))
        keys, objects, since = self.entries(places)
        columns = [np.full(len(places), entity), keys & _RELATION, objects]
        return np.stack(columns, axis=1, dtype=np.int32, casting="same_kind"), since

    def facts(self) -> Facts:
        """All facts as they were given, without inverses, (k, 3)."""
        queries = self._queries()
        rows = np.stack([queries >> 32, queries & _RELATION, self.answers], axis=1)
        facts: Facts = rows[rows[:, 1] % 2 == 0].astype(np.int32)
        return facts

    def merged(self, facts: Facts, since: int) -> "KnownFacts":
        """This index with n more facts and their inverses. A fact that is known already keeps its
        `since`. Takes O(n log A) and a copy of the arrays."""
        queries, objects, _ = _distinct(with_inverses(facts))
        places, known = self._places(queries, objects)
        new, places = ~known, places[~known]
        return _of_rows(
            np.insert(self._queries(), places, queries[new]),
            np.insert(self.answers, places, objects[new]),
            np.insert(self.since, places, np.int32(since)),
        )

    def without(self, facts: Facts) -> "KnownFacts":
        """This index without n facts and their inverses; unknown facts are ignored. Takes as long
        as `merged`."""
        queries, objects, _ = _distinct(with_inverses(facts))
        places, known = self._places(queries, objects)
        old = places[known]
        return _of_rows(
            np.delete(self._queries(), old),
            np.delete(self.answers, old),
            np.delete(self.since, old),
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays to be stored."""
        return {name: getattr(self, name) for name in ("keys", "offsets", "answers", "since")}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The inverse of `arrays`. Only sizes are checked, so a memory-mapped file is not read."""
        keys, offsets = (stored_array(arrays, name, np.int64) for name in ("keys", "offsets"))
        answers, since = (stored_array(arrays, name, np.int32) for name in ("answers", "since"))
        require_fit(
            len(offsets) == len(keys) + 1, f"{len(keys)} queries have {len(offsets)} offsets"
        )
        require_fit(
            offsets[0] == 0 and offsets[-1] == len(answers) == len(since),
            f"offsets go from {offsets[0]} to {offsets[-1]}, "
            f"for {len(answers)} answers known since {len(since)} versions",
        )
        return cls(keys, offsets, answers, since)

    def _bounds(self, keys: Ints, side: Literal["left", "right"]) -> Ints:
        """The places before which all queries below each of n keys, or up to it, have their
        answers, (n,)."""
        return self.offsets[np.searchsorted(self.keys, keys, side)]

    def _queries(self) -> Ints:
        """The packed query of each answer, shape (A,)."""
        return np.repeat(self.keys, np.diff(self.offsets))

    def _spans(self, queries: Ints) -> tuple[Ints, Ints]:
        """Start and stop of the answers of n packed queries, shapes (n,); equal if unknown."""
        places, known = _find(queries, self.keys)
        return self.offsets[places], self.offsets[places + known]

    def _places(self, queries: Ints, objects: Ids) -> tuple[Ints, Mask]:
        """The (insertion) places of n facts in `answers`, and whether they are known; (n,)."""
        starts, stops = self._spans(queries)
        places = _lower_bounds(objects, self.answers, starts, stops)
        known = places < stops
        known[known] = self.answers[places[known]] == objects[known]
        return places, known


def _of_rows(queries: Ints, answers: Ids, since: Ids) -> KnownFacts:
    """The index of A facts with sorted packed queries, shapes (A,)."""
    starts = np.flatnonzero(starts_run(queries))
    return KnownFacts(queries[starts], np.append(starts, len(queries)), answers, since)


def pack(subjects: npt.ArrayLike, relations: npt.ArrayLike) -> Ints:
    """subject · 2³² + relation, elementwise."""
    return (np.asarray(subjects, dtype=np.int64) << 32) | np.asarray(relations, dtype=np.int64)


def places_of(facts: Facts, entities: Ints) -> Facts:
    """Facts with the places of their entities among the given ones (w,), ascending."""
    places = np.searchsorted(entities, facts[:, (0, 2)]).astype(np.int32)
    return np.stack([places[:, 0], facts[:, 1], places[:, 1]], axis=1)


def starts_run(values: npt.NDArray[np.integer]) -> Mask:
    """True where a value differs from its predecessor, and for the first value."""
    starts = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=starts[1:])
    return starts


def _distinct(facts: Facts) -> tuple[Ints, Ids, Ints]:
    """The packed queries and the objects of n facts, sorted and distinct, and the first row of
    each; shapes (≤ n,)."""
    queries, objects = pack(facts[:, 0], facts[:, 1]), facts[:, 2]
    order = np.lexsort((objects, queries))  # stable: equal facts stay in order of their rows
    rows = order[starts_run(queries[order]) | starts_run(objects[order])]
    return queries[rows], objects[rows], rows


def _find(wanted: Ints, among: Ints) -> tuple[Ints, Mask]:
    """The (insertion) places of n values in a sorted array, and whether they are there; (n,)."""
    places = np.searchsorted(among, wanted)
    known = places < len(among)
    known[known] = among[places[known]] == wanted[known]
    return places, known


def _lower_bounds(wanted: Ids, values: Ids, starts: Ints, stops: Ints) -> Ints:
    """For each of n: the first place in the sorted values[start : stop] with a value ≥ `wanted`, or
    `stop`; n vectorised binary searches, shape (n,)."""
    low, high = starts.copy(), stops.copy()
    while len(still := np.flatnonzero(low < high)):
        middle = (low[still] + high[still]) // 2
        below = values[middle] < wanted[still]
        low[still[below]] = middle[below] + 1
        high[still[~below]] = middle[~below]
    return low
