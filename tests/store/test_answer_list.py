"""The features of an answer are those of a plain count, and have no scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lkge.store.answer_list import LIMIT, AnswerList

SCORES = np.random.default_rng(0).normal(-7, 3, 200).astype(np.float32)
KNOWN = np.array([3, 17, 60])


def plain(
    scores: NDArray[np.float32], known: list[int], place: int, temperature: float
) -> tuple[float, float]:
    """Log odds and log rank of one answer."""
    listed = [k for k in range(len(scores)) if k not in known]
    z = (scores.astype(np.float64) - np.mean(scores[listed], dtype=np.float64)) / np.std(
        scores[listed], dtype=np.float64
    )
    others = [k for k in listed if k != place]
    total = sum(np.exp(temperature * z[k]) for k in others)
    rank = 1 + sum(z[k] > z[place] for k in others)
    return float(np.log(np.exp(temperature * z[place]) / total)), float(np.log(rank))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_features_equal_a_plain_count_for_known_and_other_answers(temperature: float) -> None:
    chosen = np.array([0, 3, 17, 100, int(SCORES.argmax()), int(SCORES.argmin())])
    answers = AnswerList.of(SCORES, KNOWN)
    found = answers.features(SCORES[chosen], ~np.isin(chosen, KNOWN), temperature)
    expected = [plain(SCORES, KNOWN.tolist(), int(place), temperature) for place in chosen]
    assert list(zip(*found, strict=True)) == [
        (pytest.approx(max(odds, -LIMIT), abs=1e-6), pytest.approx(rank)) for odds, rank in expected
    ]


@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-100, 100))
def test_the_scale_of_the_scores_does_not_matter(scale: float, shift: float) -> None:
    wide = SCORES.astype(np.float64)
    chosen, inside = np.arange(10), np.ones(10, np.bool_)
    first = AnswerList.of(wide, KNOWN[:0]).features(wide[chosen], inside, 2.0)
    moved = scale * wide + shift
    second = AnswerList.of(moved, KNOWN[:0]).features(moved[chosen], inside, 2.0)
    np.testing.assert_allclose(first.log_odds, second.log_odds, atol=1e-6)
    np.testing.assert_array_equal(first.log_rank, second.log_rank)


def test_a_sample_of_the_candidates_has_about_the_features_of_all() -> None:
    scores = np.random.default_rng(1).normal(0, 1, 100_000)
    sample = np.append(scores[::10], 3.5)
    inside, target = np.ones(1, np.bool_), np.array([3.5])
    whole = AnswerList.of(np.append(scores, 3.5), KNOWN[:0]).features(target, inside, 2.0)
    part = AnswerList.of(sample, KNOWN[:0], inflation=10).features(target, inside, 2.0)
    assert part.log_odds[0] == pytest.approx(whole.log_odds[0], abs=0.1)
    assert part.log_rank[0] == pytest.approx(whole.log_rank[0], abs=0.5)


@pytest.mark.parametrize("scores", [[1.0, 1.0, 1.0], [2.0], [1e30, -1e30, 0.0]])
def test_features_are_finite(scores: list[float]) -> None:
    values = np.array(scores, dtype=np.float32)
    inside = np.ones(len(values), np.bool_)
    found = AnswerList.of(values, KNOWN[:0]).features(values, inside, 4.0)
    assert np.isfinite(found).all()
    assert (np.abs(found.log_odds) <= LIMIT).all()


def test_a_list_of_known_answers_only() -> None:
    values = np.array([1.0, 2.0], dtype=np.float32)
    answers = AnswerList.of(values, np.array([0, 1]))
    found = answers.features(values, np.zeros(2, np.bool_), 1.0)
    assert found.log_rank.tolist() == [0, 0]
    assert np.isfinite(found.log_odds).all()
