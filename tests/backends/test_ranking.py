"""Exact ranks: the byte filter never changes a count, ties included."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lkge.backends.numba.byte_distance import LANES, ROWS
from lkge.backends.numba.ranking import count_ahead, quantise
from lkge.models.queries import Candidates

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Counts = NDArray[np.int64]


class Question(NamedTuple):
    """The arguments of `count_ahead`, those of `Candidates` last."""

    queries: Floats
    question: Ints
    candidates: Floats
    targets: Ints
    limits: Ints
    starts: Counts
    stops: Counts
    answers: Ints
    since: Ints
    until: Ints


def ahead(*question: NDArray[Any]) -> tuple[Counts, Counts]:
    return count_ahead(*question[:4], Candidates(*question[4:]))


def counted_one_by_one(question: Question) -> tuple[list[list[int]], list[list[int]]]:
    """The definition: every candidate of every view, compared with the target in float64."""
    queries, candidates = question.queries.astype(float), question.candidates.astype(float)
    nearer, equal = [], []
    for b, target in enumerate(question.targets.tolist()):
        query = queries[question.question[b]]
        distances = [float(np.abs(query - row).sum()) for row in candidates]
        asked = question.question[b]
        mine = range(question.starts[asked], question.stops[asked])
        nearer_here, equal_here = [], []
        for limit, until in zip(question.limits.tolist(), question.until.tolist(), strict=True):
            known = {int(question.answers[k]) for k in mine if question.since[k] <= until}
            rivals = set(range(limit)) - (known - {target})
            nearer_here.append(sum(distances[c] < distances[target] for c in rivals))
            equal_here.append(sum(distances[c] == distances[target] for c in rivals))
        nearer.append(nearer_here)
        equal.append(equal_here)
    return nearer, equal


def on_grid(generator: np.random.Generator, rows: int, dim: int) -> Floats:
    """Multiples of 1/64, so that sums of differences are exact; some rows twice, some far out."""
    table = generator.integers(-32, 33, (rows, dim)) / 64
    table[generator.integers(0, rows, rows // 2)] = table[generator.integers(0, rows)]
    outliers = generator.random((rows, dim)) < 0.01
    return np.where(outliers, 100 * table, table).astype(np.float32)


def made_question(seed: int, size: int, rows: int, dim: int, views: int) -> Question:
    generator = np.random.default_rng(seed)
    targets = generator.integers(0, rows, size, dtype=np.int32)
    lowest = int(targets.max()) + 1
    distinct = int(generator.integers(1, size + 1))
    known = generator.integers(0, min(rows, 6), distinct)
    stops = np.cumsum(known).astype(np.int64)
    answers = np.concatenate(
        [np.sort(generator.permutation(rows)[:count]) for count in known] or [np.empty(0, np.int64)]
    )
    return Question(
        queries=on_grid(generator, distinct, dim),
        question=np.sort(generator.integers(0, distinct, size, dtype=np.int32)),
        candidates=on_grid(generator, rows, dim),
        targets=targets,
        limits=generator.integers(lowest, rows + 1, views, dtype=np.int32),
        starts=stops - known,
        stops=stops,
        answers=answers.astype(np.int32),
        since=generator.integers(0, 4, len(answers), dtype=np.int32),
        until=generator.integers(0, 4, views, dtype=np.int32),
    )


def without_filter(queries: Floats, candidates: Floats, targets: Ints) -> Question:
    """One view of all candidates; each query asks once."""
    none = np.zeros(len(queries), np.int64)
    return Question(
        queries=queries,
        question=np.arange(len(queries), dtype=np.int32),
        candidates=candidates,
        targets=targets,
        limits=np.array([len(candidates)], np.int32),
        starts=none,
        stops=none,
        answers=np.empty(0, np.int32),
        since=np.empty(0, np.int32),
        until=np.zeros(1, np.int32),
    )


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    size=st.integers(1, 12),
    rows=st.integers(1, 60),
    dim=st.sampled_from([1, 2, 7, 31, 32, 33, 64, 100]),
    views=st.integers(1, 3),
)
def test_counts_are_those_of_the_definition(
    seed: int, size: int, rows: int, dim: int, views: int
) -> None:
    question = made_question(seed, size, rows, dim, views)
    nearer, equal = ahead(*question)
    expected_nearer, expected_equal = counted_one_by_one(question)
    assert nearer.tolist() == expected_nearer
    assert equal.tolist() == expected_equal


def test_the_made_questions_have_ties_and_filters_that_matter() -> None:
    """The property above would say little if its cases were all alike."""
    question = made_question(3, 12, 60, 32, 3)
    _, equal = counted_one_by_one(question)
    assert np.max(equal) > 1
    unfiltered = question._replace(stops=question.starts)
    assert counted_one_by_one(question) != counted_one_by_one(unfiltered)
    assert len(set(question.limits.tolist())) > 1


@pytest.mark.parametrize("dim", [1, 3, 16, 31, 32, 50, 200])
def test_equal_rows_of_any_values_tie(dim: int) -> None:
    """Two equal rows have one distance, though its sum is rounded."""
    generator = np.random.default_rng(dim)
    distinct = generator.standard_normal((30, dim)).astype(np.float32)
    queries = generator.standard_normal((10, dim)).astype(np.float32)
    targets = generator.integers(0, 60, 10, dtype=np.int32)
    _, equal = ahead(*without_filter(queries, np.tile(distinct, (2, 1)), targets))
    assert (equal == 2).all()


def test_a_query_may_be_asked_with_many_targets_or_none() -> None:
    generator = np.random.default_rng(4)
    candidates, queries = on_grid(generator, 30, 40), on_grid(generator, 20, 40)
    asked = np.array([2, 2, 2, 9, 19, 19], dtype=np.int32)
    targets = np.array([0, 7, 7, 3, 29, 0], dtype=np.int32)
    together = without_filter(queries, candidates, targets)._replace(question=asked)
    apart = without_filter(queries[asked], candidates, targets)
    for one, other in zip(ahead(*together), ahead(*apart), strict=True):
        assert one.tolist() == other.tolist()


def test_more_candidates_than_a_tile_in_several_views() -> None:
    question = made_question(5, 10, 2500, 6, 3)._replace(
        limits=np.array([2500, 1024, 1025], np.int32), targets=np.arange(10, dtype=np.int32) * 100
    )
    nearer, equal = ahead(*question)
    assert (nearer.tolist(), equal.tolist()) == counted_one_by_one(question)


def test_a_filter_takes_out_what_was_counted() -> None:
    """With all rivals known, nobody is nearer and only the target is level."""
    generator = np.random.default_rng(0)
    candidates = generator.standard_normal((40, 50)).astype(np.float32)
    candidates[20:] = candidates[:20]
    queries = generator.standard_normal((30, 50)).astype(np.float32)
    question = without_filter(queries, candidates, np.arange(30, dtype=np.int32))._replace(
        starts=np.zeros(30, np.int64),
        stops=np.full(30, 40, np.int64),
        answers=np.arange(40, dtype=np.int32),
        since=np.zeros(40, np.int32),
    )
    nearer, equal = ahead(*question)
    assert not nearer.any()
    assert (equal == 1).all()


def test_counts_of_many_real_rows_are_within_rounding() -> None:
    generator = np.random.default_rng(1)
    candidates = generator.standard_normal((3000, 130)).astype(np.float32)
    candidates[:5] *= 200
    queries = (candidates[:40] + generator.standard_normal((40, 130))).astype(np.float32)
    targets = generator.integers(0, 3000, 40, dtype=np.int32)
    nearer, equal = ahead(*without_filter(queries, candidates, targets))
    for b, target in enumerate(targets):
        distances = np.abs(queries[b].astype(float) - candidates).sum(axis=1)
        room = 1e-5 * distances[target]
        least, most = (np.sum(distances < distances[target] + side) for side in (-room, room))
        assert least <= nearer[b, 0] <= nearer[b, 0] + equal[b, 0] <= most


@pytest.mark.parametrize("value", [0.0, 0.07, -3.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1.0, -100.0])
def test_when_all_rows_are_the_same_all_tie(value: float, shift: float) -> None:
    candidates = np.full((20, 33), value, dtype=np.float32)
    queries = candidates[:3] + np.float32(shift)
    nearer, equal = ahead(*without_filter(queries, candidates, np.arange(3, dtype=np.int32)))
    assert not nearer.any()
    assert (equal == 20).all()


@pytest.mark.parametrize("dim", [5, 32, 70])
def test_bytes_bound_the_distance_from_both_sides(dim: int) -> None:
    generator = np.random.default_rng(dim)
    rows = generator.standard_normal((50, dim)).astype(np.float32)
    rows[0] *= 50
    low, step = np.float32(-2), np.float32(4 / 255)
    codes, errors = quantise(rows, low, step)
    assert codes.shape[1] % LANES == 0
    assert codes.shape[0] == 50 + ROWS
    assert not codes[:, dim:].any()
    apart = np.abs(codes[:, None].astype(int) - codes[None].astype(int)).sum(2)
    for b in range(50):
        for c in range(50):
            true = np.abs(rows[b].astype(float) - rows[c]).sum() / step
            assert abs(true - apart[b, c]) <= errors[b] + errors[c] + 1e-2


def test_consecutive_calls_do_not_see_each_other() -> None:
    questions = [made_question(1, 12, 60, 33, 2), made_question(2, 3, 9, 7, 1)]
    first = [ahead(*question) for question in questions]
    again = [ahead(*question) for question in reversed(questions)][::-1]
    for one, other in zip(first, again, strict=True):
        assert [part.tolist() for part in one] == [part.tolist() for part in other]
