from __future__ import annotations

import math

import pytest

from lkge.reports import text


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.2344, "0.234"), (-0.0567, "−0.057"), (-0.0001, "0.000"), (math.nan, "–")],  # noqa: RUF001
)
def test_number(value: float, shown: str) -> None:
    assert text.number(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (99.94, "99.9 s"),
        (99.96, "1m 40s"),
        (119.7, "2m 00s"),
        (3599.4, "59m 59s"),
        (3599.6, "1h 00m"),
        (7830.0, "2h 10m"),
        (math.nan, "–"),  # noqa: RUF001
    ],
)
def test_duration(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.6, "1.0 kB"),
        (999_960, "1.0 MB"),
        (23_100_000, "23.1 MB"),
        (4.2e15, "4200.0 TB"),
        (math.nan, "–"),  # noqa: RUF001
    ],
)
def test_size(count: float, shown: str) -> None:
    assert text.size(count) == shown


def test_control_and_direction_characters_do_not_reach_the_reader() -> None:
    assert text.printable("a\x1b[2Jb\u202ec\nd é 図") == "a�[2Jb�c�d é 図"


def test_models_and_test_sets_count_from_one() -> None:
    assert (text.model(0), text.queries(11)) == ("M₁", "Q₁₂")


def test_a_long_name_is_cut_and_marked() -> None:
    assert text.shortened("abcdef", 4) == "abc…"
    assert text.shortened("abcd", 4) == "abcd"


def test_of_long_names_what_most_have_in_common_is_left_out() -> None:
    names = [
        "evergreen, distillation 1.0, no replay-model",
        "evergreen, no averaging, distillation 1.0",
        "evergreen, distillation 1.0",
        "lkge, " + 40 * "x",
    ]
    assert list(map(text.distinct_labels(names, 30).get, names)) == [
        "evergreen, …, no replay-model",
        "evergreen, …, no averaging",
        "evergreen, distillation 1.0",
        "lkge, " + 23 * "x" + "…",
    ]
