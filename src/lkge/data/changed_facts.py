"""Known facts as a large index, which may be mapped from a file, and a few changes in memory."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from lkge.data.known_facts import Ids, Ints, KnownFacts, Mask, _of_rows, pack, ranges
from lkge.data.snapshots import Facts, no_facts, with_inverses

Change = tuple[Facts, Ids]
"""Facts (n, 3) without inverses, and the snapshot that added each, (n,); GONE: it was removed."""
GONE = -1


class ChangedFacts(KnownFacts):
    """An index `base` after some changes, in order. All is as in the index of what is known then,
    places of answers among them; a query that was changed has all its answers in memory, and no
    other answer of the base is read. So a change costs as much as the queries that it touches."""

    def __init__(self, base: KnownFacts, changes: Sequence[Change] = ()) -> None:
        vars(self).update(base=base, changes=tuple(changes))
        touched, queries, objects, since = _changed_rows(base, self.changes)
        vars(self).update(touched=touched, current=_of_rows(queries, objects, since))
        starts, stops = base._spans(touched)
        now = np.subtract(*self.current._spans(touched)[::-1])
        more = np.append(0, np.cumsum(now - (stops - starts)))
        vars(self).update(_more=more, _starts=starts + more[:-1], _ends=starts + more[:-1] + now)

    base: KnownFacts
    changes: tuple[Change, ...]
    touched: Ints
    """The packed queries (t,) with changes, sorted."""
    current: KnownFacts
    """All answers that these have now."""
    _more: Ints
    """(t + 1,): how many answers more there are before each of these queries than in the base."""
    _starts: Ints
    _ends: Ints
    """(t,): where the answers of each of these queries start and end."""

    @cached_property
    def whole(self) -> KnownFacts:
        """The index in arrays. Takes a copy of all."""
        if not self.changes:
            return self.base
        queries = self.base._queries()
        kept = ~np.isin(queries, self.touched)
        queries = queries[kept]
        more = self.current._queries()
        places = np.searchsorted(queries, more)
        return _of_rows(
            np.insert(queries, places, more),
            np.insert(self.base.answers[kept], places, self.current.answers),
            np.insert(self.base.since[kept], places, self.current.since),
        )

    @property
    def keys(self) -> Ints:
        """Those of `whole`."""
        return self.whole.keys

    @property
    def offsets(self) -> Ints:
        """Those of `whole`."""
        return self.whole.offsets

    @property
    def answers(self) -> Ids:
        """Those of `whole`."""
        return self.whole.answers

    @property
    def since(self) -> Ids:
        """Those of `whole`."""
        return self.whole.since

    @property
    def num_answers(self) -> int:
        return self.base.num_answers + int(self._more[-1])

    def of(self, subject: int, relation: int, until: int) -> Ids:
        is_touched = self._touched(pack([subject], [relation]))[1][0]
        return (self.current if is_touched else self.base).of(subject, relation, until)

    def subjects_of(self, relation: int) -> Ids:
        mine, theirs = self.current.subjects_of(relation), self.base.subjects_of(relation)
        touched = self.touched[(self.touched & 0xFFFFFFFF) == relation] >> 32
        found: Ids = np.union1d(np.setdiff1d(theirs, touched), mine).astype(np.int32)
        return found

    def answer_counts(self, relation: int) -> Ints:
        keys = self.base.keys
        places = np.flatnonzero((keys & 0xFFFFFFFF) == relation)
        places = places[~np.isin(keys[places], self.touched)]
        theirs = self.base.offsets[places + 1] - self.base.offsets[places]
        return np.concatenate([theirs, self.current.answer_counts(relation)])

    def contains(self, facts: Facts) -> Mask:
        is_touched = self._touched(pack(facts[:, 0], facts[:, 1]))[1]
        known: Mask = np.where(is_touched, self.current.contains(facts), self.base.contains(facts))
        return known

    def merged(self, facts: Facts, since: int) -> "ChangedFacts":
        """This index with n more facts and their inverses; the base stays."""
        return self._after(facts[~self.contains(facts)], since)

    def without(self, facts: Facts) -> "ChangedFacts":
        """This index without n facts and their inverses; the base stays."""
        return self._after(facts[self.contains(facts)], GONE)

    def entries(self, places: Ints) -> tuple[Ints, Ids, Ids]:
        at = np.searchsorted(self._starts, places, side="right")
        ends = np.append(0, self._ends)
        inside = places < ends[at]
        queries = np.empty(len(places), np.int64)
        objects, since = (np.empty(len(places), np.int32) for _ in range(2))
        starts = np.append(0, self.current._spans(self.touched)[0])
        begins = np.append(0, self._starts)
        mine = starts[at[inside]] + places[inside] - begins[at[inside]]
        theirs = places[~inside] - self._more[at[~inside]]
        for part, index, where in ((inside, self.current, mine), (~inside, self.base, theirs)):
            queries[part], objects[part], since[part] = index.entries(where)
        return queries, objects, since

    def _bounds(self, keys: Ints, side: Literal["left", "right"]) -> Ints:
        return self.base._bounds(keys, side) + self._more[np.searchsorted(self.touched, keys, side)]

    def _spans(self, queries: Ints) -> tuple[Ints, Ints]:
        starts, stops = self.base._spans(queries)
        at, is_touched = self._touched(queries)
        starts, stops = starts + self._more[at], stops + self._more[at]
        starts[is_touched] = self._starts[at[is_touched]]
        stops[is_touched] = self._ends[at[is_touched]]
        return starts, stops

    def _touched(self, queries: Ints) -> tuple[Ints, Mask]:
        """The (insertion) places of n queries among those with changes, and whether they are
        there."""
        at = np.searchsorted(self.touched, queries)
        there = at < len(self.touched)
        there[there] = self.touched[at[there]] == queries[there]
        return at, there

    def _after(self, facts: Facts, since: int) -> "ChangedFacts":
        change = facts, np.full(len(facts), since, dtype=np.int32)
        return ChangedFacts(self.base, (*self.changes, change) if len(facts) else self.changes)


def _changed_rows(base: KnownFacts, changes: Sequence[Change]) -> tuple[Ints, Ints, Ids, Ids]:
    """The packed queries with changes, sorted; and what is known of these now: packed queries,
    objects and since, sorted by query and object."""
    rows = np.concatenate([no_facts(), *(with_inverses(facts) for facts, _ in changes)])
    since = np.concatenate([np.empty(0, np.int32), *(np.tile(since, 2) for _, since in changes)])
    touched = np.unique(pack(rows[:, 0], rows[:, 1]))
    starts, stops = base._spans(touched)
    places = ranges(starts, stops)
    queries = np.append(np.repeat(touched, stops - starts), pack(rows[:, 0], rows[:, 1]))
    objects = np.append(base.answers[places], rows[:, 2])
    since = np.append(base.since[places], since)
    order = np.lexsort((objects, queries))  # stable: the last change of a fact comes last
    queries, objects, since = queries[order], objects[order], since[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = (queries[1:] != queries[:-1]) | (objects[1:] != objects[:-1])
    kept = last & (since != GONE)
    return touched, queries[kept], objects[kept], since[kept]
