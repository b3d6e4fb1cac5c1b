"""A large table with a few changes is as the table of what is there then."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lkge.data.changed_facts import ChangedFacts
from lkge.data.changed_names import ChangedNames
from lkge.data.history import History
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, NameTable
from lkge.data.snapshots import Facts
from lkge.errors import DataError, UnknownName
from lkge.store.composed import TABLES

FACTS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([0, 2]), st.integers(0, 4)), max_size=12
)
CHANGES = st.lists(st.tuples(st.booleans(), FACTS), max_size=5)


def array(facts: list[tuple[int, int, int]]) -> Facts:
    return np.array(list(dict.fromkeys(facts)), dtype=np.int32).reshape(-1, 3)


@settings(deadline=None, max_examples=200)
@given(base=FACTS, changes=CHANGES)
def test_changed_facts_are_as_the_index_of_all(
    base: list[tuple[int, int, int]], changes: list[tuple[bool, list[tuple[int, int, int]]]]
) -> None:
    plain = KnownFacts.build([array(base)])
    changed: KnownFacts = ChangedFacts(plain)
    for since, (added, facts) in enumerate(changes, 1):
        if added:
            plain, changed = (each.merged(array(facts), since) for each in (plain, changed))
        else:
            plain, changed = (each.without(array(facts)) for each in (plain, changed))
    same(changed, plain)
    assert isinstance(changed, ChangedFacts)
    same(ChangedFacts(changed.base, changed.changes), plain)
    same(ChangedFacts(changed.whole), plain)


def same(mine: KnownFacts, theirs: KnownFacts) -> None:
    assert (mine.num_facts, mine.num_answers) == (theirs.num_facts, theirs.num_answers)
    for name, arrays in theirs.arrays().items():
        assert np.array_equal(mine.arrays()[name], arrays)
    queries = np.array([(s, r, 0) for s in range(6) for r in range(5)], dtype=np.int32)
    starts, stops = mine.lookup(queries[:, 0], queries[:, 1])
    wanted, ends = theirs.lookup(queries[:, 0], queries[:, 1])
    assert np.array_equal(stops - starts, ends - wanted)
    there = starts < stops
    assert np.array_equal(starts[there], wanted[there])
    places = np.arange(theirs.num_answers)
    for one, other in zip(mine.entries(places), theirs.entries(places), strict=True):
        assert np.array_equal(one, other)
    everything = np.array([(s, r, o) for s, r, _ in queries.tolist() for o in range(6)], np.int32)
    assert np.array_equal(mine.contains(everything), theirs.contains(everything))
    for one, other in zip(mine.spans_of(np.arange(7)), theirs.spans_of(np.arange(7)), strict=True):
        assert np.array_equal(one, other)
    for subject, relation, _ in queries.tolist():
        for until in (0, 2, 9):
            assert np.array_equal(
                mine.of(subject, relation, until), theirs.of(subject, relation, until)
            )
        for limit in (None, 2):
            for one, other in zip(
                mine.around(subject, limit), theirs.around(subject, limit), strict=True
            ):
                assert np.array_equal(one, other)
    for relation in range(5):
        assert np.array_equal(mine.subjects_of(relation), theirs.subjects_of(relation))
        counts = np.sort(mine.answer_counts(relation))
        assert np.array_equal(counts, np.sort(theirs.answer_counts(relation)))
    for known in (mine, theirs):
        generator = np.random.default_rng(3)
        samples = (
            History(known).sample(4, generator),
            History(known).of_entities(np.arange(3), 2, generator),
        )
        if known is mine:
            first = samples
    assert all(np.array_equal(a, b) for a, b in zip(first, samples, strict=True))


NAMES = ["ada", "Ada", "bob", "Bob Z", "çelik", "x", "y y", "Zoë"]


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_changed_names_are_as_the_table_of_all(data: st.DataObject) -> None:
    first = data.draw(st.lists(st.sampled_from(NAMES), unique=True))
    plain: NameTable = NameTable.of(first)
    changed: NameTable = ChangedNames(plain)
    tables = [changed]
    for _ in range(data.draw(st.integers(0, 5))):
        if data.draw(st.booleans()) or not len(plain):
            free = [name for name in NAMES if plain.find(name) is None]
            more = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
            plain, changed = plain.appended(more), changed.appended(more)
        else:
            number = data.draw(st.integers(0, len(plain) - 1))
            name = data.draw(st.sampled_from(["", *NAMES]))
            if plain.name(number) == "" or (name and plain.find(name) is not None):
                continue
            plain, changed = plain.renamed(number, name), changed.renamed(number, name)
        tables.append(changed)
    same_names(changed, plain)
    assert isinstance(changed, ChangedNames)
    deltas = [
        new.delta(old, "entity") for old, new in pairwise(tables) if isinstance(new, ChangedNames)
    ]
    same_names(ChangedNames.after(changed.base, deltas, "entity"), plain)
    same_names(ChangedNames(changed.whole), plain)


def same_names(mine: NameTable, theirs: NameTable) -> None:
    assert len(mine) == len(theirs)
    assert list(mine) == list(theirs)
    assert [mine.name(number) for number in range(len(mine))] == list(theirs)
    assert np.array_equal(mine.removed, theirs.removed)
    asked = [*NAMES, "none", ""]
    assert np.array_equal(mine.find_all(asked), theirs.find_all(asked))
    assert [mine.find(name) for name in asked] == [theirs.find(name) for name in asked]
    for prefix in ("", "a", "B", "z"):
        for limit in (None, 2):
            assert mine.starting_with(prefix, limit) == theirs.starting_with(prefix, limit)
    for name, arrays in theirs.arrays("entity").items():
        assert np.array_equal(mine.arrays("entity")[name], arrays)
    assert sorted(mine.near("bob y")) == sorted(theirs.near("bob y"))


def test_names_that_exist_are_refused() -> None:
    table = ChangedNames(NameTable.of(["a", "b"])).renamed(0, "c").appended(["d"])
    for name in ("b", "c", "d"):
        with pytest.raises(DataError, match="exists already"):
            table.appended([name])
        with pytest.raises(DataError, match="exists already"):
            table.renamed(1, name)
    assert table.appended(["a"]).find("a") == 3
    with pytest.raises(DataError):
        table.appended(["e", "e"])
    with pytest.raises(UnknownName, match="Did you mean 'd'"):
        MappedNames(table, NameTable.of()).entity_id("dd")
    assert TABLES == ("entity", "relation")
