from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic.dataclasses import dataclass

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.errors import DamagedFile, RunError
from lkge.store.calibration import Calibration
from lkge.store.records import (
    STRICT,
    File,
    Manifest,
    Number,
    StoreConfig,
    VersionRecord,
    from_json,
    read_record,
    to_json,
    write_record,
)


@dataclass(frozen=True, config=STRICT)
class Inner:
    name: str


@dataclass(frozen=True, config=STRICT)
class Outer:
    count: int
    share: Number
    right: bool
    names: tuple[str, ...]
    pair: tuple[float, float]
    row: dict[str, Number]
    triples: list[tuple[str, str, str]]
    inner: tuple[Inner, ...]
    free: dict[str, Any]


OUTER = Outer(
    1, 0.5, True, ("a", "b"), (1.0, 2.0), {"0": 0.25}, [("s", "r", "o")], (Inner("ï"),), {"x": [1]}
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_record(tmp_path / "file", OUTER)
    assert read_record(tmp_path / "file", Outer) == OUTER


def test_a_number_that_is_not_there_is_null(tmp_path: Path) -> None:
    write_record(tmp_path / "file", replace(OUTER, share=math.nan, row={"0": math.nan}))
    assert read_checked_json(tmp_path / "file")["share"] is None
    read = read_record(tmp_path / "file", Outer)
    assert math.isnan(read.share)
    assert math.isnan(read.row["0"])


def test_a_whole_number_is_a_number_too() -> None:
    share = from_json(Outer, {**to_json(OUTER), "share": 1}).share
    assert (share, type(share)) == (1.0, float)


@pytest.mark.parametrize(
    "change",
    [
        {"count": 1.0},
        {"count": True},
        {"count": None},
        {"count": "1"},
        {"share": "0.5"},
        {"share": False},
        {"right": 1},
        {"names": "ab"},
        {"names": [1]},
        {"pair": [1.0]},
        {"pair": [1.0, 2.0, 3.0]},
        {"row": []},
        {"row": {"0": "much"}},
        {"triples": [["s", "r"]]},
        {"triples": [["s", "r", 3]]},
        {"inner": [{}]},
        {"inner": [{"name": "a", "age": 3}]},
        {"inner": ["a"]},
        {"free": []},
        {"more": 1},
    ],
)
def test_whatever_does_not_fit_is_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    write_checked_json(tmp_path / "file", {"format": 1, **to_json(OUTER), **change})
    with pytest.raises(DamagedFile, match="file: damaged; `lkge verify`"):
        read_record(tmp_path / "file", Outer)


@pytest.mark.parametrize("name", list(to_json(OUTER)))
def test_a_missing_field_is_damage(tmp_path: Path, name: str) -> None:
    tree = {"format": 1, **to_json(OUTER)}
    del tree[name]
    write_checked_json(tmp_path / "file", tree)
    with pytest.raises(DamagedFile):
        read_record(tmp_path / "file", Outer)


def test_another_format_is_told_apart_from_damage(tmp_path: Path) -> None:
    write_checked_json(tmp_path / "file", {**to_json(OUTER), "format": {"reader": 4, "writer": 4}})
    with pytest.raises(RunError, match="in format 4") as caught:
        read_record(tmp_path / "file", Outer)
    assert not isinstance(caught.value, DamagedFile)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="file: cannot be written: No such file"):
        write_record(tmp_path / "none" / "file", OUTER)


def test_fields_that_only_writers_must_know_are_left_out(tmp_path: Path) -> None:
    later = {**to_json(OUTER), "more": 1}
    later["inner"] = [{"name": "ï", "age": 3}]
    write_checked_json(tmp_path / "file", {**later, "format": {"reader": 3, "writer": 4}})
    assert read_record(tmp_path / "file", Outer) == OUTER
    write_checked_json(tmp_path / "file", {**later, "format": {"reader": 3, "writer": 3}})
    with pytest.raises(DamagedFile):
        read_record(tmp_path / "file", Outer)


@pytest.mark.parametrize(
    "written",
    [None, 0, "3", 2.0, {}, {"reader": 3}, {"reader": 4, "writer": 3}, {"reader": 2, "writer": 3}],
)
def test_what_is_no_format_is_damage(tmp_path: Path, written: Any) -> None:
    write_checked_json(tmp_path / "file", {**to_json(OUTER), "format": written})
    with pytest.raises(DamagedFile):
        read_record(tmp_path / "file", Outer)


def manifest_tree(calibration: Any) -> dict[str, Any]:
    record = to_json(VersionRecord(0, "init", "then"))
    tree = {"version": 0, "last_batch": 0, "config": {}, "record": record, "format": 2}
    return {**tree, "calibration": calibration}


def test_a_calibration_comes_back_and_an_old_one_is_two_numbers(tmp_path: Path) -> None:
    new = Calibration(20, 2.0, (0.1, 0.9, -0.3), (0, 3), (0.25, -1.0))
    for calibration in (new, (1.5, -2.0)):
        manifest = Manifest(0, 0, {}, calibration, VersionRecord(0, "init", "then"))
        write_record(tmp_path / "manifest", manifest)
        read = read_record(tmp_path / "manifest", Manifest)
        assert read.calibration == calibration
        assert type(read.calibration) is type(calibration)


@pytest.mark.parametrize(
    "name",
    ["/etc/model.safetensors", "../x.json", "000001-x-base.safetensors", "model.safetensors"],
)
def test_a_manifest_names_files_of_versions_only(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a file of a version"):
        File("0" * 64, 4, name)


@pytest.mark.parametrize(
    "calibration",
    [[1.0], {"slope": 1.0}, {"facts": -3}, {"relations": [2, 1], "offsets": [0, 0]}, None, "none"],
)
def test_a_calibration_that_does_not_fit_is_damage(tmp_path: Path, calibration: Any) -> None:
    write_checked_json(tmp_path / "manifest", manifest_tree(calibration))
    with pytest.raises(DamagedFile):
        read_record(tmp_path / "manifest", Manifest)


@pytest.mark.parametrize(
    "change", [{"hold_out_fraction": 1.0}, {"pool": 3}, {"hold_out_facts": -1}]
)
def test_a_store_config_is_checked(change: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        StoreConfig(**change)
