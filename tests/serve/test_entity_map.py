from __future__ import annotations

import numpy as np
import pytest

from lkge.serve.entity_map import principal_plane, select_entities


def test_the_plane_is_where_rows_spread_most() -> None:
    generator = np.random.default_rng(1)
    spread = generator.normal(size=(200, 5)) * [0.1, 5.0, 0.1, 2.0, 0.1]
    plane = principal_plane(spread.astype(np.float32))
    assert abs(np.corrcoef(plane[:, 0], spread[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(plane[:, 1], spread[:, 3])[0, 1]) > 0.99
    assert np.abs(plane).max() == pytest.approx(1.0)


def test_a_map_stays_as_it_is_when_a_few_rows_are_added_or_all_come_in_another_order() -> None:
    rows = np.random.default_rng(2).gamma(1.0, size=(300, 8)).astype(np.float32)
    rows[:, :2] *= [4, 2]
    grown = np.concatenate([rows, rows[:5] + 0.1])
    for axis in (0, 1):
        before, after = principal_plane(rows)[:, axis], principal_plane(grown)[:300, axis]
        assert np.corrcoef(before, after)[0, 1] > 0.99
    assert np.array_equal(principal_plane(rows), principal_plane(rows.copy()))
    assert np.allclose(principal_plane(rows[::-1].copy())[::-1], principal_plane(rows), atol=1e-9)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (2, 1), (3, 4)])
def test_few_rows_have_a_place_too(shape: tuple[int, int]) -> None:
    plane = principal_plane(np.ones(shape, dtype=np.float32))
    assert plane.shape == (shape[0], 2)
    assert np.isfinite(plane).all()


def test_a_small_graph_is_on_the_map_whole() -> None:
    assert select_entities(np.zeros(5, dtype=np.int64), 5).tolist() == [0, 1, 2, 3, 4]


def test_of_a_large_graph_come_the_busiest_and_some_of_every_age() -> None:
    degrees = np.ones(1000, dtype=np.int64)
    degrees[700:710] = 50
    chosen = select_entities(degrees, 20)
    assert len(set(chosen.tolist())) == 20
    assert set(range(700, 710)) <= set(chosen.tolist())
    assert chosen[0] == 0
    assert chosen[-1] == 999
    assert (np.diff(chosen) > 0).all()


def test_a_map_of_one() -> None:
    assert len(select_entities(np.arange(10), 1)) == 1
