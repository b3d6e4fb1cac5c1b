"""Which predictor answers: arrays, or the kernels of torch and numba."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.store.made import made_store

from lkge.models.array_predictor import ArrayPredictor
from lkge.models.predictor import TablePredictor
from lkge.store import reader as reading
from lkge.store.reader import Reader, open_reader

QUERY = np.array([[0, 0, 0], [2, 1, 0]], dtype=np.int32)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return open_reader(made_store(tmp_path / "KG", 2).folder)


def test_arrays_answer_as_the_kernels_do(reader: Reader) -> None:
    assert isinstance(reader.predictor, ArrayPredictor)
    assert isinstance(reader.torch_predictor, TablePredictor)
    found, wanted = (p.query_scores(QUERY) for p in (reader.predictor, reader.torch_predictor))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_large_graph_has_the_kernels(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LARGE", 1)
    assert isinstance(reader.predictor, TablePredictor)


@pytest.mark.parametrize("small", [True, False])
def test_one_that_asks_often_has_them_in_a_graph_that_is_not_small(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    monkeypatch.setattr(reading, "SMALL", 1 << 20 if small else 1)
    reader.use_kernels()
    assert isinstance(reader.predictor, ArrayPredictor if small else TablePredictor)


def test_arrays_are_enough_where_torch_is_not_installed(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGE", 1)
    monkeypatch.setattr(reading, "find_spec", lambda _: None)
    assert isinstance(reader.predictor, ArrayPredictor)
