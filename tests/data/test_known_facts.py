from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, no_facts
from lkge.errors import DamagedFile

triples = st.tuples(st.integers(0, 5), st.sampled_from([0, 2, 4]), st.integers(0, 5))
histories = st.lists(st.lists(triples, max_size=12), max_size=4)
Triple = tuple[int, int, int]
Triples = list[Triple]


def as_facts(facts: Triples) -> Facts:
    return np.array(facts, dtype=np.int32).reshape(-1, 3)


def plain_twin(history: list[Triples]) -> dict[tuple[int, int], dict[int, int]]:
    """(subject, relation) → object → first snapshot."""
    known: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for snapshot, facts in enumerate(history):
        for subject, relation, obj in facts:
            known[subject, relation].setdefault(obj, snapshot)
            known[obj, relation + 1].setdefault(subject, snapshot)
    return known


@given(histories)
def test_answers_equal_a_plain_dictionary(history: list[Triples]) -> None:
    answers = KnownFacts.build([as_facts(facts) for facts in history])
    known = plain_twin(history)
    for subject in range(7):
        for relation in range(7):
            expected = known.get((subject, relation), {})
            for until in range(-1, len(history) + 1):
                found = answers.of(subject, relation, until)
                assert found.tolist() == sorted(
                    o for o, first in expected.items() if first <= until
                )


@given(histories)
def test_lookup_in_bulk_equals_one_by_one(history: list[Triples]) -> None:
    answers = KnownFacts.build([as_facts(facts) for facts in history])
    subjects, relations = (grid.ravel() for grid in np.meshgrid(np.arange(7), np.arange(7)))
    starts, stops = answers.lookup(subjects, relations)
    for subject, relation, start, stop in zip(subjects, relations, starts, stops, strict=True):
        everything = answers.of(int(subject), int(relation), until=len(history))
        assert answers.answers[start:stop].tolist() == everything.tolist()


@given(histories)
def test_arrays_are_compact_rows(history: list[Triples]) -> None:
    answers = KnownFacts.build([as_facts(facts) for facts in history])
    assert (np.diff(answers.keys) > 0).all()
    assert (np.diff(answers.offsets) > 0).all()
    assert answers.offsets[0] == 0
    assert answers.offsets[-1] == len(answers.answers) == len(answers.since)
    assert len(answers.offsets) == len(answers.keys) + 1
    distinct = {fact for facts in history for fact in facts}
    assert len(answers.answers) == 2 * len(distinct)
    assert answers.keys.dtype == answers.offsets.dtype == np.int64
    assert answers.answers.dtype == answers.since.dtype == np.int32


def test_nothing_is_known_without_facts() -> None:
    for history in ([], [no_facts()]):
        answers = KnownFacts.build(history)
        starts, stops = answers.lookup([0, 3], [1, 0])
        assert starts.tolist() == stops.tolist() == [0, 0]


def test_ids_near_the_limit_do_not_collide() -> None:
    top = 2**31 - 1
    answers = KnownFacts.build([as_facts([(top, top - 1, 0), (top - 1, 0, top)])])
    assert answers.of(top, top - 1, until=0).tolist() == [0]
    assert answers.of(0, top, until=0).tolist() == [top]
    assert answers.of(top - 1, 0, until=0).tolist() == [top]
    assert answers.of(top, 1, until=0).tolist() == [top - 1]


def assert_same(found: KnownFacts, expected: KnownFacts) -> None:
    for name, array in expected.arrays().items():
        assert found.arrays()[name].dtype == array.dtype
        assert found.arrays()[name].tolist() == array.tolist()


def rebuilt(known: dict[Triple, int], steps: int) -> KnownFacts:
    """From what a dictionary fact → since says."""
    return KnownFacts.build(
        [as_facts([fact for fact, at in known.items() if at == step]) for step in range(steps)]
    )


@given(st.lists(st.tuples(st.lists(triples, max_size=12), st.lists(triples, max_size=12))))
def test_growing_and_retracting_equal_building_anew(
    steps: list[tuple[Triples, Triples]],
) -> None:
    answers, known = KnownFacts.build([]), dict[Triple, int]()
    for step, (added, retracted) in enumerate(steps):
        answers = answers.merged(as_facts(added), step)
        known = dict.fromkeys(added, step) | known
        assert_same(answers, rebuilt(known, len(steps)))
        answers = answers.without(as_facts(retracted))
        known = {fact: at for fact, at in known.items() if fact not in retracted}
        assert_same(answers, rebuilt(known, len(steps)))
        assert answers.num_facts == len(known)


@given(histories, st.lists(triples))
def test_contains_equals_a_set(history: list[Triples], asked: Triples) -> None:
    answers = KnownFacts.build([as_facts(facts) for facts in history])
    known = {fact for facts in history for fact in facts}
    assert answers.contains(as_facts(asked)).tolist() == [fact in known for fact in asked]
    inverse = [(o, relation + 1, s) for s, relation, o in asked]
    assert answers.contains(as_facts(inverse)).tolist() == [fact in known for fact in asked]


@given(histories, st.none() | st.integers(0, 6))
def test_the_facts_around_an_entity(history: list[Triples], limit: int | None) -> None:
    answers = KnownFacts.build([as_facts(facts) for facts in history])
    known = plain_twin(history)
    for entity in range(7):
        expected = sorted(
            (subject, relation, obj, first)
            for (subject, relation), objects in known.items()
            for obj, first in objects.items()
            if subject == entity
        )[:limit]
        facts, since = answers.around(entity, limit)
        assert facts.shape == (len(expected), 3)
        assert facts.dtype == since.dtype == np.int32
        assert [(*fact, at) for fact, at in zip(facts.tolist(), since, strict=True)] == expected


@given(histories, st.integers(0, 5))
def test_subjects_and_numbers_of_answers_of_a_relation(
    history: list[Triples], relation: int
) -> None:
    answers = KnownFacts.build([as_facts(facts) for facts in history])
    known = {
        query: objects for query, objects in plain_twin(history).items() if query[1] == relation
    }
    assert answers.subjects_of(relation).tolist() == sorted(subject for subject, _ in known)
    sizes = [len(known[query]) for query in sorted(known)]
    assert answers.answer_counts(relation).tolist() == sizes


def test_growth_leaves_the_old_answers_as_they_were() -> None:
    old = KnownFacts.build([as_facts([(0, 0, 1), (0, 0, 3)])])
    before = {name: array.copy() for name, array in old.arrays().items()}
    old.merged(as_facts([(0, 0, 2), (9, 2, 0)]), since=5)
    old.without(as_facts([(0, 0, 1)]))
    assert_same(old, KnownFacts.from_arrays(before))


def test_growth_near_the_limit_of_ids() -> None:
    top = 2**31 - 1
    facts = as_facts([(top, top - 1, 0), (top - 1, 0, top)])
    answers = KnownFacts.build([]).merged(facts, since=7)
    assert answers.contains(facts).all()
    assert answers.around(top, None)[0].tolist() == [[top, 1, top - 1], [top, top - 1, 0]]
    assert answers.around(0, None)[0].tolist() == [[0, top, top]]
    assert answers.without(facts).num_facts == 0


def test_arrays_come_back_from_mapped_files(tmp_path: Path) -> None:
    answers = KnownFacts.build([as_facts([(0, 0, 1), (2, 4, 0)]), as_facts([(1, 2, 1)])])
    mapped: dict[str, NDArray[Any]] = {}
    for name, array in answers.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    opened = KnownFacts.from_arrays(mapped)
    assert_same(opened, answers)
    more = as_facts([(5, 0, 5), (0, 0, 2)])
    assert_same(opened.merged(more, since=2), answers.merged(more, since=2))
    assert_same(opened.without(more), answers)


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        ("keys", np.zeros(1, np.int64)),
        ("keys", np.zeros(2, np.float64)),
        ("offsets", np.array([0, 2], np.int64)),
        ("offsets", np.array([1, 1, 2], np.int64)),
        ("offsets", np.array([0, 1, 3], np.int64)),
        ("offsets", np.array([], np.int64)),
        ("answers", np.zeros(3, np.int32)),
        ("answers", np.zeros((2, 1), np.int32)),
        ("since", np.zeros(1, np.int32)),
        ("since", None),
    ],
)
def test_impossible_arrays_are_refused(name: str, damaged: NDArray[Any] | None) -> None:
    arrays = KnownFacts.build([as_facts([(0, 0, 1)])]).arrays()
    del arrays[name]
    if damaged is not None:
        arrays[name] = damaged
    with pytest.raises(DamagedFile, match="do not fit"):
        KnownFacts.from_arrays(arrays)
