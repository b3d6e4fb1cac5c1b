"""Accuracy from ranks, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lkge.evaluation.results import accuracy, mean_reciprocal_rank


def test_by_hand() -> None:
    found = accuracy(np.array([1.0, 2.0, 4.0, 10.0, 20.0]))
    assert found.mrr == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 10 + 1 / 20) / 5)
    assert (found.hits1, found.hits3, found.hits10) == (0.2, 0.4, 0.8)
    assert found.queries == 5


def test_a_tied_rank_between_two_hits_counts_for_neither_below_it() -> None:
    found = accuracy(np.array([1.5, 3.5, 10.5]))
    assert (found.hits1, found.hits3, found.hits10) == (0, 1 / 3, 2 / 3)


def test_without_ranks_nothing_is_known() -> None:
    found = accuracy(np.empty(0))
    assert math.isnan(mean_reciprocal_rank(np.empty(0)))
    assert all(map(math.isnan, (found.mrr, found.hits1, found.hits3, found.hits10)))
    assert found.queries == 0
