from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lkge.serve import entity_map
from lkge.serve.entity_map import principal_plane, select_entities
from lkge.store.reader import Reader, open_reader


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


def test_a_map_of_a_large_graph_looks_at_a_bounded_number_and_finds_the_busiest(
    learned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 16 of 36 entities: each with a sixteenth of the answers is found, the same each time."""
    reader = open_reader(learned)
    asked = list[int]()

    def degree(ids: NDArray[np.int64]) -> NDArray[np.int64]:
        asked.append(len(ids))
        return Reader.degree(reader, ids)

    monkeypatch.setattr(reader, "degree", degree)
    monkeypatch.setattr(entity_map, "SAMPLED", 16)
    ids, degrees = entity_map._chosen(reader, 8)
    assert max(asked) <= 16
    everyone = Reader.degree(reader, np.arange(reader.num_entities))
    assert degrees.tolist() == everyone[ids].tolist()
    busiest = np.flatnonzero(everyone * 16 >= reader.answers.num_answers)
    assert set(busiest[:4].tolist()) <= set(ids.tolist())
    assert {0, reader.num_entities - 1} <= set(ids.tolist())
    assert 4 <= len(ids) <= 8
    assert np.array_equal(entity_map._chosen(reader, 8)[0], ids)
