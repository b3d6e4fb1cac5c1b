"""Counts from scores, against their definition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lkge.backends.numba.counting import count_above, product_slack
from lkge.models.queries import Candidates

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Places = NDArray[np.int64]


class Question(NamedTuple):
    """The arguments of `count_above`, those of `Candidates` last."""

    scores: Floats
    queries: Floats
    candidates: Floats
    slack: Floats
    bounds: Places
    targets: Ints
    limits: Ints
    starts: Places
    stops: Places
    answers: Ints
    since: Ints
    until: Ints


def counted(*asked: NDArray[Any]) -> tuple[Places, Places]:
    return count_above(*asked[:6], Candidates(*asked[6:]))


def counted_one_by_one(asked: Question) -> tuple[list[list[int]], list[list[int]]]:
    """The definition: every rival of every view, compared with the target."""
    above: list[list[int]] = []
    equal: list[list[int]] = []
    for q, scores in enumerate(asked.scores.tolist()):
        known = range(asked.starts[q], asked.stops[q])
        for target in asked.targets[asked.bounds[q] : asked.bounds[q + 1]].tolist():
            above.append([])
            equal.append([])
            for limit, until in zip(asked.limits.tolist(), asked.until.tolist(), strict=True):
                out = {int(asked.answers[k]) for k in known if asked.since[k] <= until} - {target}
                rivals = [scores[c] for c in set(range(limit)) - out]
                above[-1].append(sum(score > scores[target] for score in rivals))
                equal[-1].append(sum(score == scores[target] for score in rivals))
    return above, equal


def without_rows(questions: int, width: int) -> tuple[Floats, Floats, Floats]:
    """Scores that are no products, and exact."""
    rows = np.empty((questions, 0), np.float32), np.empty((width, 0), np.float32)
    return *rows, np.zeros(questions, np.float32)


def made_question(seed: int, questions: int, width: int, views: int) -> Question:
    """Scores of which many are equal; questions without facts, and answers beyond any view."""
    generator = np.random.default_rng(seed)
    scores = generator.integers(-5, 6, (questions, width)).astype(np.float32) / 4
    bounds = np.append(0, np.cumsum(generator.integers(0, 4, questions))).astype(np.int64)
    targets = generator.integers(0, width, bounds[-1], dtype=np.int32)
    known = [
        generator.choice(width + 3, generator.integers(0, width + 3), replace=False)
        for _ in range(questions)
    ]
    stops = np.cumsum([len(each) for each in known]).astype(np.int64)
    answers = np.concatenate(known).astype(np.int32)
    lowest = int(targets.max()) + 1 if len(targets) else 1
    return Question(
        scores,
        *without_rows(questions, width),
        bounds,
        targets,
        generator.integers(lowest, width + 1, views, dtype=np.int32),
        stops - [len(each) for each in known],
        stops,
        answers,
        generator.integers(0, 4, len(answers), dtype=np.int32),
        generator.integers(-1, 4, views, dtype=np.int32),
    )


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    questions=st.integers(1, 12),
    width=st.integers(1, 70),
    views=st.integers(1, 4),
)
def test_counts_are_those_of_the_definition(
    seed: int, questions: int, width: int, views: int
) -> None:
    asked = made_question(seed, questions, width, views)
    above, equal = counted(*asked)
    expected = counted_one_by_one(asked)
    assert above.reshape(-1, views).tolist() == expected[0]
    assert equal.reshape(-1, views).tolist() == expected[1]


@pytest.mark.parametrize("width", [9, 300, 1000])
def test_products_that_round_apart_are_compared_exactly(width: int) -> None:
    """All rows are equal but some, which are a little longer; scores are off by rounding."""
    generator = np.random.default_rng(width)
    queries = generator.normal(size=(4, 33)).astype(np.float32)
    candidates = np.tile(generator.normal(size=33).astype(np.float32), (width, 1))
    candidates[3::7] *= np.float32(1 + 2**-20)
    slack = product_slack(queries, candidates)
    exact = (queries.astype(float) @ candidates.astype(float).T).astype(np.float32)
    noise = generator.uniform(-0.5, 0.5, (4, width)).astype(np.float32)
    asked = made_question(width, 4, width, 2)._replace(
        scores=exact + noise * slack[:, None],
        queries=queries,
        candidates=candidates,
        slack=slack,
    )
    above, equal = counted(*asked)
    expected = counted_one_by_one(asked._replace(scores=exact))
    assert above.tolist() == expected[0]
    assert equal.tolist() == expected[1]
    assert equal.max() > width // 4


def test_slack_covers_what_a_product_may_round() -> None:
    generator = np.random.default_rng(0)
    queries, candidates = (generator.normal(size=(50, 200)).astype(np.float32) for _ in range(2))
    error = np.abs(queries @ candidates.T - queries.astype(float) @ candidates.astype(float).T)
    slack = product_slack(queries, candidates)
    assert (2 * error.max(axis=1) < slack).all()
    assert (slack < 1e-3 * np.abs(queries @ candidates.T).max(axis=1)).all()


def test_a_row_that_is_not_a_number_gives_no_slack_to_others() -> None:
    rows = np.ones((3, 4), dtype=np.float32)
    spoilt = np.append(rows, np.full((1, 4), np.nan, dtype=np.float32), axis=0)
    assert product_slack(rows, spoilt).tolist() == product_slack(rows, rows).tolist()


def test_what_is_not_a_number_is_as_high_as_all() -> None:
    scores = np.array([[1.0, np.nan, 3.0, 2.0]], dtype=np.float32)
    nothing = np.zeros(1, dtype=np.int64)
    whole = np.array([4], dtype=np.int32)
    none = np.empty(0, dtype=np.int32)
    for target, expected in ((1, (0, 4)), (0, (2, 2)), (2, (0, 2))):
        above, equal = counted(
            scores,
            *without_rows(1, 4),
            np.array([0, 1]),
            np.array([target], dtype=np.int32),
            whole,
            nothing,
            nothing,
            none,
            none,
            np.zeros(1, dtype=np.int32),
        )
        assert (int(above[0, 0]), int(equal[0, 0])) == expected


@pytest.mark.parametrize("views", [1, 3])
def test_no_question_has_no_counts(views: int) -> None:
    asked = made_question(0, 1, 5, views)
    empty = asked._replace(
        scores=asked.scores[:0],
        queries=asked.queries[:0],
        slack=asked.slack[:0],
        bounds=np.zeros(1, dtype=np.int64),
        targets=asked.targets[:0],
        starts=asked.starts[:0],
        stops=asked.stops[:0],
    )
    assert [counts.shape for counts in counted(*empty)] == [(0, views)] * 2
