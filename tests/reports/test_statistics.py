from __future__ import annotations

import math

import pytest

from lkge.reports.statistics import sign_test, t_interval, t_quantile, t_test, t_within

PRINTED = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 10: 2.228, 30: 2.042, 120: 1.980}
"""The 97.5 % points of Student's t in the tables of textbooks."""


@pytest.mark.parametrize("df", PRINTED)
def test_student_s_t_is_that_of_textbooks(df: int) -> None:
    assert t_quantile(0.95, df) == pytest.approx(PRINTED[df], abs=6e-4)
    assert t_within(0, df) == pytest.approx(0)


def test_an_interval_by_hand() -> None:
    assert t_interval([1, 2, 3]) == pytest.approx(4.302653 / math.sqrt(3))
    assert math.isnan(t_interval([1.0]))


def test_a_t_test_agrees_with_its_interval() -> None:
    values = [0.1, 0.2, 0.3]
    assert t_test(values) == pytest.approx(0.07418, abs=1e-5)
    touching = [value - 0.2 + t_interval(values) for value in values]
    assert t_test(touching) == pytest.approx(0.05)
    assert t_test([-value for value in values]) == t_test(values)


@pytest.mark.parametrize("values", [[], [0.1], [0.1, 0.1], [0.0, 0.0]])
def test_where_nothing_varies_there_is_no_p(values: list[float]) -> None:
    assert math.isnan(t_test(values) if values else math.nan)
    assert math.isnan(sign_test(values[:1]))


def test_signs_are_tried_one_by_one() -> None:
    assert sign_test([1.0] * 5) == 2 / 2**5
    assert sign_test([3.0, 1.0, -1.0]) == 6 / 8
    assert sign_test([1.0, 0.0, -1.0]) == 1


def test_many_signs_are_drawn_and_the_same_each_time() -> None:
    assert sign_test([1.0] * 40) == 1 / 10_001
    balanced = [(-1.0) ** k for k in range(40)]
    assert sign_test(balanced) == 1
    mild = [1.0] * 12 + [-1.0] * 8
    assert sign_test(mild) == pytest.approx(0.503, abs=0.02)
    assert sign_test(mild) == sign_test(mild)
