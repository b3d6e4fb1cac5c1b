from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lkge.data.answers import KnownAnswers
from lkge.data.snapshots import Facts, no_facts

triples = st.tuples(st.integers(0, 5), st.sampled_from([0, 2, 4]), st.integers(0, 5))
histories = st.lists(st.lists(triples, max_size=12), max_size=4)
Triples = list[tuple[int, int, int]]


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
    answers = KnownAnswers.build([as_facts(facts) for facts in history])
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
    answers = KnownAnswers.build([as_facts(facts) for facts in history])
    subjects, relations = (grid.ravel() for grid in np.meshgrid(np.arange(7), np.arange(7)))
    starts, stops = answers.lookup(subjects, relations)
    for subject, relation, start, stop in zip(subjects, relations, starts, stops, strict=True):
        everything = answers.of(int(subject), int(relation), until=len(history))
        assert answers.answers[start:stop].tolist() == everything.tolist()


@given(histories)
def test_arrays_are_compact_rows(history: list[Triples]) -> None:
    answers = KnownAnswers.build([as_facts(facts) for facts in history])
    assert (np.diff(answers.keys) > 0).all()
    assert (np.diff(answers.offsets) > 0).all()
    assert answers.offsets[0] == 0
    assert answers.offsets[-1] == len(answers.answers) == len(answers.since)
    assert len(answers.offsets) == len(answers.keys) + 1
    distinct = {fact for facts in history for fact in facts}
    assert len(answers.answers) == 2 * len(distinct)
    assert (answers.keys.dtype, answers.offsets.dtype) == (np.int64, np.int64)
    assert (answers.answers.dtype, answers.since.dtype) == (np.int32, np.int32)


def test_nothing_is_known_without_facts() -> None:
    for history in ([], [no_facts()]):
        answers = KnownAnswers.build(history)
        starts, stops = answers.lookup([0, 3], [1, 0])
        assert starts.tolist() == stops.tolist() == [0, 0]


def test_ids_near_the_limit_do_not_collide() -> None:
    top = 2**31 - 1
    answers = KnownAnswers.build([as_facts([(top, top - 1, 0), (top - 1, 0, top)])])
    assert answers.of(top, top - 1, until=0).tolist() == [0]
    assert answers.of(0, top, until=0).tolist() == [top]
    assert answers.of(top - 1, 0, until=0).tolist() == [top]
    assert answers.of(top, 1, until=0).tolist() == [top - 1]
