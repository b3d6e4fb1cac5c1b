"""The search by bytes gives the answers of a full scan, whatever the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.backends.made import NUMBA, TORCH

from lkge.backends import implementation
from lkge.backends.numba import search as kernels
from lkge.backends.numba.search import ByteQuery, ByteRows, ByteSearch
from lkge.backends.torch_search import LISTED, Best, Search
from lkge.models.parameters import Flags, Floats
from lkge.models.scores import SCORES, score_named

DISTMULT = score_named("distmult")


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def copies(rows: Floats) -> Floats:
    """Every second row is one of three."""
    rows[::2] = rows[np.arange(len(rows[::2])) % 3]
    return rows


def apart(size: int) -> NDArray[np.float64]:
    """From 1e-20 to 1e19."""
    return np.asarray(10.0 ** (np.arange(size) % 40 - 20)[:, None])


ROWS: dict[str, Any] = {
    "normal": lambda seed: normal(seed, 1500, 20),
    "wide": lambda seed: normal(seed, 300, 700),
    "narrow": lambda seed: normal(seed, 40, 1),
    "few": lambda seed: normal(seed, 2, 9),
    "equal rows": lambda seed: copies(normal(seed, 1200, 16)),
    "one row again and again": lambda seed: np.repeat(normal(seed, 1, 24), 1100, axis=0),
    "whole numbers": lambda seed: np.rint(normal(seed, 1100, 12)),
    "zeros among others": lambda seed: normal(seed, 900, 20) * (np.arange(900) % 3 > 0)[:, None],
    "zeros": lambda seed: np.zeros((700, 8), np.float32),
    "one large number a row": lambda seed: normal(seed, 900, 20) + 1e4 * np.eye(20)[0],
    "lengths apart": lambda seed: normal(seed, 900, 20) * apart(900),
    "near the largest": lambda seed: 1e17 * normal(seed, 600, 20),
    "beyond the largest": lambda seed: 1e30 * normal(seed, 600, 20),
    "tiny": lambda seed: 1e-22 * normal(seed, 600, 20),
    "subnormal": lambda seed: 1e-41 * normal(seed, 600, 20),
}  # fmt: skip


def searches(rows: Floats, name: str = "distmult") -> tuple[Search, Search]:
    """By bytes, and the twin."""
    made = [
        implementation(backend, "search", score_named(name))(
            score_named(name), torch.from_numpy(rows), backend
        )
        for backend in (NUMBA, TORCH)
    ]
    assert isinstance(made[0], ByteSearch)
    assert type(made[1]) is Search
    return made[0], made[1]


def require_same(found: Best, expected: Best) -> None:
    """Places, scores and the first of the list are the same; the others are not far apart."""
    assert found.places.tolist() == expected.places.tolist()
    assert found.scores.tobytes() == expected.scores.tobytes()
    assert found.scores.dtype == found.list.dtype == np.float32
    first = np.argsort(-expected.list, kind="stable")[:LISTED]
    assert found.list[first].tobytes() == expected.list[first].tobytes()
    others = np.ones(len(found.list), np.bool_)
    others[first] = False
    assert not others.any() or found.list[others].max() <= expected.list[first].min()


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("k", [0, 1, 10, 100, 10**6])
def test_the_answers_are_those_of_a_full_scan(kind: str, k: int) -> None:
    rows = np.ascontiguousarray(ROWS[kind](1), dtype=np.float32)
    by_bytes, plain = searches(rows)
    generator = np.random.default_rng(2)
    for left in (np.ones(len(rows), np.bool_), generator.random(len(rows)) < 0.3):
        for scale in (1, 1e-25, 1e10, 0):
            query = torch.from_numpy(normal(3, 1, rows.shape[1]) * np.float32(scale))
            require_same(by_bytes.best(query, k, left), plain.best(query, k, left))
        for row in (0, len(rows) - 1):
            require_same(by_bytes.nearest(row, k, left), plain.nearest(row, k, left))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    size=st.integers(1, 1200),
    dim=st.integers(1, 70),
    k=st.integers(0, 30),
    share=st.floats(0, 1),
    outlier=st.floats(0, 1e6),
)
def test_the_answers_are_those_of_a_full_scan_of_any_size(
    seed: int, size: int, dim: int, k: int, share: float, outlier: float
) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((size, dim), dtype=np.float32)
    rows[generator.integers(0, size), generator.integers(0, dim)] = outlier
    by_bytes, plain = searches(rows)
    left = generator.random(size) < share
    query = torch.from_numpy(generator.standard_normal((1, dim), dtype=np.float32))
    require_same(by_bytes.best(query, k, left), plain.best(query, k, left))
    row = int(generator.integers(0, size))
    require_same(by_bytes.nearest(row, k, left), plain.nearest(row, k, left))


@pytest.mark.parametrize("name", SCORES)
def test_every_score_is_searched(name: str) -> None:
    by_bytes, plain = searches(normal(0, 700, 12), name)
    query, left = torch.from_numpy(normal(1, 1, 12)), np.arange(700) % 5 > 0
    found, expected = by_bytes.best(query, 7, left), plain.best(query, 7, left)
    assert found.places.tolist() == expected.places.tolist()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    require_same(by_bytes.nearest(5, 7, left), plain.nearest(5, 7, left))


def bounds(rows: Floats, query: Floats) -> tuple[NDArray[Any], NDArray[Any], Flags]:
    """Estimates, margins, and whether each score is within."""
    table, asked = ByteRows.of(rows), ByteQuery.of(query.astype(np.float64))
    codes, steps, errors = table[:3]
    estimates, highest = np.empty((2, len(rows)), dtype=np.float32)
    kernels._estimates(codes, steps, errors, *asked, estimates, highest)
    margins = steps * (asked.length * errors + asked.slack) + kernels.TINY
    exact = rows.astype(np.float64) @ query.astype(np.float64)
    return estimates, margins, np.abs(exact - estimates) <= margins


@pytest.mark.parametrize("kind", ["normal", "wide", "one large number a row", "lengths apart"])
def test_scores_are_within_their_bounds(kind: str) -> None:
    rows = np.ascontiguousarray(ROWS[kind](4), dtype=np.float32)
    query = normal(5, rows.shape[1])
    for asked in (query, rows[7], 1e-3 * query):
        assert bounds(rows, asked)[2].all()


def test_bounds_are_narrow_where_numbers_are_alike() -> None:
    rows, query = normal(6, 2000, 200), normal(7, 200)
    estimates, margins, _ = bounds(rows, query)
    assert margins.mean() < 0.12 * estimates.std()


def test_whole_numbers_are_bytes_without_error() -> None:
    rows = np.random.default_rng(8).integers(-127, 128, (50, 30)).astype(np.float32)
    rows[:, 0] = 127
    table = ByteRows.of(rows)
    np.testing.assert_array_equal(table.codes, rows)
    assert (table.steps == 1).all()
    assert (table.errors < 0.01).all()


def test_few_scores_are_computed() -> None:
    """The others are estimates."""
    by_bytes, plain = searches(normal(9, 20_000, 64))
    query, left = torch.from_numpy(normal(10, 1, 64)), np.ones(20_000, np.bool_)
    found, expected = by_bytes.best(query, 5, left), plain.best(query, 5, left)
    computed = (found.list == expected.list).sum()
    assert LISTED <= computed < 1000
    np.testing.assert_allclose(found.list, expected.list, atol=0.03 * expected.list.std())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_not_hidden(value: float) -> None:
    rows = normal(11, 700, 10)
    rows[600, 3] = value
    by_bytes, _ = searches(rows)
    left = np.ones(700, np.bool_)
    for _ in range(2):
        assert not np.isfinite(by_bytes.best(torch.from_numpy(rows[:1]), 3, left).list).all()
        assert not np.isfinite(by_bytes.nearest(0, 3, left).list).all()


def test_the_list_does_not_depend_on_what_is_asked_for() -> None:
    by_bytes, _ = searches(normal(12, 3000, 32))
    query, left = torch.from_numpy(normal(13, 1, 32)), np.ones(3000, np.bool_)
    first = by_bytes.best(query, 1, left).list
    for k, among in ((500, left), (10, np.arange(3000) % 100 == 0)):
        assert by_bytes.best(query, k, among).list.tobytes() == first.tobytes()


def test_nothing_is_searched() -> None:
    by_bytes, plain = searches(np.empty((0, 4), np.float32))
    query, left = torch.from_numpy(normal(0, 1, 4)), np.empty(0, np.bool_)
    require_same(by_bytes.best(query, 3, left), plain.best(query, 3, left))
