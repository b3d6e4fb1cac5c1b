from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tests.store.living import QUICK, made
from tests.store.made import made_store

from lkge.errors import DataError, RunError, SettingsError
from lkge.living import init
from lkge.store import export as exporting
from lkge.store.export import WRITERS, export
from lkge.store.reader import Reader, open_reader


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Five entities with rows made by hand, and one relation."""
    return open_reader(made_store(tmp_path / "KG", 3).folder)


def names_of(reader: Reader) -> dict[str, list[str]]:
    return {"entities": list(reader.names.entity_table), "relations": ["follows", "follows⁻¹"]}


def rows_of(reader: Reader) -> dict[str, NDArray[np.float32]]:
    tables = reader.inference_arrays
    return {"entities": tables["entity"], "relations": tables["relation"]}


def lines_of(path: Path, separator: str) -> tuple[list[str], NDArray[np.float32]]:
    fields = [line.split(separator) for line in path.read_text("utf-8").splitlines()]
    return [name for name, *_ in fields], np.array([row for _, *row in fields], dtype=np.float32)


@pytest.fixture(params=[1, 2, 4096])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters are written so many rows at a time, which must not show."""
    monkeypatch.setattr(exporting, "PIECE", request.param)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("kind", ["entities", "relations"])
class TestEveryFormatGivesNamesAndRowsBack:
    def test_parquet(self, reader: Reader, tmp_path: Path, kind: str) -> None:
        export(reader, tmp_path / "out", "parquet")
        table = pq.read_table(tmp_path / "out" / f"{kind}.parquet")
        assert table["name"].to_pylist() == names_of(reader)[kind]
        np.testing.assert_array_equal(table["row"].to_pylist(), rows_of(reader)[kind])

    def test_npy(self, reader: Reader, tmp_path: Path, kind: str) -> None:
        export(reader, tmp_path / "out", "npy")
        rows = np.load(tmp_path / "out" / f"{kind}.npy")
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows, rows_of(reader)[kind])
        assert json.loads((tmp_path / "out" / f"{kind}.json").read_text()) == names_of(reader)[kind]

    def test_tsv(self, reader: Reader, tmp_path: Path, kind: str) -> None:
        export(reader, tmp_path / "out", "tsv")
        names, rows = lines_of(tmp_path / "out" / f"{kind}.tsv", "\t")
        assert names == names_of(reader)[kind]
        np.testing.assert_array_equal(rows, rows_of(reader)[kind])

    def test_word2vec(self, reader: Reader, tmp_path: Path, kind: str) -> None:
        export(reader, tmp_path / "out", "word2vec")
        path = tmp_path / "out" / f"{kind}.txt"
        head, _, rest = path.read_text("utf-8").partition("\n")
        assert head == "{} {}".format(*rows_of(reader)[kind].shape)
        path.write_text(rest, encoding="utf-8")
        names, rows = lines_of(path, " ")
        assert names == [name.replace(" ", "_") for name in names_of(reader)[kind]]
        np.testing.assert_array_equal(rows, rows_of(reader)[kind])

    def test_safetensors(self, reader: Reader, tmp_path: Path, kind: str) -> None:
        export(reader, tmp_path / "out", "safetensors")
        tables = load_file(tmp_path / "out" / "rows.safetensors")
        assert set(tables) == {"entities", "relations"}
        np.testing.assert_array_equal(tables[kind], rows_of(reader)[kind])
        assert json.loads((tmp_path / "out" / f"{kind}.json").read_text()) == names_of(reader)[kind]


def test_text_keeps_every_bit_of_a_number(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=1)
    graph.export(tmp_path / "out", "tsv")
    names, rows = lines_of(tmp_path / "out" / "entities.tsv", "\t")
    assert names[7] == "person 7"
    assert rows.tobytes() == graph.reader.rows(np.arange(40)).tobytes()


def test_the_files_are_told(reader: Reader, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    assert export(reader, out, "tsv") == [out / "entities.tsv", out / "relations.tsv"]


@pytest.mark.parametrize("format", WRITERS)
def test_an_empty_graph_has_empty_tables(tmp_path: Path, format: str) -> None:
    init(tmp_path / "KG", **QUICK).export(tmp_path / "out", format)
    assert all(path.exists() for path in (tmp_path / "out").iterdir())
    if format == "npy":
        assert np.load(tmp_path / "out" / "entities.npy").shape == (0, QUICK["dim"])
        assert json.loads((tmp_path / "out" / "entities.json").read_text()) == []


def test_a_folder_with_something_in_it_is_left_alone(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept", encoding="utf-8")
    with pytest.raises(RunError, match="out: exists already"):
        export(reader, tmp_path / "out", "npy")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_an_unknown_format_is_told_the_known_ones(reader: Reader, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"'hdf5'.*parquet, npy, tsv, word2vec, safetensors"):
        export(reader, tmp_path / "out", "hdf5")


@pytest.mark.parametrize(
    ("names", "format", "message"),
    [
        (["a\tb", "c"], "tsv", "tab or line break"),
        (["a b", "a_b"], "word2vec", "two names would be the word 'a_b'"),
    ],
)
def test_names_that_a_format_cannot_tell_apart_leave_nothing(
    tmp_path: Path, names: list[str], format: str, message: str
) -> None:
    graph = init(tmp_path / "KG", **{**QUICK, "max_epochs": 1})
    graph.add([(names[0], "follows", names[1])], valid=0)
    with pytest.raises(DataError, match=message):
        graph.export(tmp_path / "out", format)
    assert [path.name for path in tmp_path.iterdir()] == ["KG"]


def test_a_failure_leaves_nothing(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(RunError, match="out: cannot be written: No space left on device"):
        export(reader, tmp_path / "out", "npy")
    assert [path.name for path in tmp_path.iterdir()] == ["KG"]


def test_a_method_without_rows_says_so(reader: Reader, tmp_path: Path) -> None:
    reader.config = reader.config.with_changes(method="mean")
    reader.predictor = reader.torch_predictor
    object.__setattr__(reader.predictor, "tables", lambda: None)
    with pytest.raises(DataError, match="no row of its own under the method 'mean'"):
        export(reader, tmp_path / "out", "npy")
