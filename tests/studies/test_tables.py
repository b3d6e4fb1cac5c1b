"""Rank correlation against values computed by hand, and differences as tables show them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from lkge.evaluation.results import Accuracy, ProtocolResult, Results
from lkge.reports.systems import systems_of
from lkge.studies.study import SystemSpec
from lkge.studies.tables import Entry, agreement, large_differences, rank_correlation, ranks

MakeRun = Callable[..., Results]


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks([0.2, 0.1, 0.2, 0.4]) == [2.5, 1.0, 2.5, 4.0]
    assert ranks([3.0, 3.0, 3.0]) == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("first", "second", "rho"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 40], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        # 1 - 6 Σ d² / (n (n² - 1)) with d = 0, 1, -1, 0, 0: 1 - 12 / 120
        ([1, 2, 3, 4, 5], [1, 3, 2, 4, 5], 0.9),
        # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, squares 4.5 and 5
        ([1, 2, 2, 3], [1, 2, 3, 4], 4.5 / math.sqrt(4.5 * 5)),
    ],
)
def test_rank_correlation(first: list[float], second: list[float], rho: float) -> None:
    assert rank_correlation(first, second) == pytest.approx(rho)
    assert rank_correlation(second, first) == pytest.approx(rho)


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.5]])
def test_without_an_order_there_is_no_correlation(values: list[float]) -> None:
    assert math.isnan(rank_correlation(values, list(range(len(values)))))


def line(make_run: MakeRun, mrr: float, printed: float | None) -> Entry:
    cell = Accuracy(mrr, mrr, mrr, mrr, 10)
    run = replace(make_run(), protocols={"paper": ProtocolResult(matrix=((cell,),))})
    (system,) = systems_of([run])
    return Entry(SystemSpec("lkge"), system, {} if printed is None else {"mrr": printed})


def test_differences_are_those_a_reader_computes_from_the_table(make_run: MakeRun) -> None:
    near = [line(make_run, 0.2204, 0.2), line(make_run, 0.1796, 0.2), line(make_run, 0.3, None)]
    far = [line(make_run, 0.2205001, 0.2), line(make_run, 0.179, 0.2)]
    assert large_differences([*near, *far]) == far
    assert [each.difference for each in far] == [0.021, -0.021]


def test_only_printed_systems_are_ranked(make_run: MakeRun) -> None:
    pairs = [(0.1, 0.3), (0.2, 0.4), (0.9, None), (0.3, 0.5)]
    assert agreement([line(make_run, ours, printed) for ours, printed in pairs]) == 1.0
