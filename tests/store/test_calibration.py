"""Plausibility is a probability: the curve is the likeliest one."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.store.calibration import UNKNOWN, calibrated


def test_two_bells_have_the_curve_that_theory_says() -> None:
    """Scores from N(-5, 1) and N(-7, 1): log odds are 2·s + 12."""
    generator = np.random.default_rng(0)
    curve = calibrated(generator.normal(-5, 1, 20_000), generator.normal(-7, 1, 20_000))
    assert curve.slope == pytest.approx(2, rel=0.05)
    assert curve.offset == pytest.approx(12, rel=0.05)


def test_what_it_promises_happens() -> None:
    """Of the facts that it gives about p, about the share p holds."""
    generator = np.random.default_rng(1)
    true, false = (generator.normal(mean, 1.5, 20_000) for mean in (-4, -6))
    curve = calibrated(true[::2], false[::2])
    scores = np.append(true[1::2], false[1::2])
    holds = np.repeat([1, 0], 10_000)
    given = curve.plausibility(scores)
    for low in np.arange(0, 1, 0.2):
        inside = (given >= low) & (given < low + 0.2)
        assert holds[inside].mean() == pytest.approx(given[inside].mean(), abs=0.03)


def test_it_stays_within_bounds_and_rises_with_the_score() -> None:
    curve = calibrated(np.array([-1.0, -2, -1.5]), np.array([-5.0, -6, -1.2]))
    given = curve.plausibility(np.array([-1e6, -8, -4, -2, 0, 1e6]))
    assert (given >= 0).all()
    assert (given <= 1).all()
    assert (np.diff(given) >= 0).all()


def test_few_facts_do_not_make_it_certain() -> None:
    curve = calibrated(np.array([-1.0]), np.array([-9.0]))
    assert curve.plausibility(np.array([-1.0]))[0] == pytest.approx(2 / 3, abs=0.01)


@pytest.mark.parametrize(("true", "false"), [(0, 3), (3, 0), (0, 0)])
def test_without_examples_everything_is_as_likely_as_not(true: int, false: int) -> None:
    assert calibrated(np.ones(true), np.ones(false)) == UNKNOWN
    assert UNKNOWN.plausibility(np.array([-3.0, 2.0])).tolist() == [0.5, 0.5]


def test_scores_that_say_nothing() -> None:
    assert calibrated(np.ones(5), np.ones(5)) == UNKNOWN
    assert calibrated(np.array([-5.0, -6.0]), np.array([-1.0, -2.0])) == UNKNOWN
