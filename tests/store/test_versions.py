from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.store.made import (
    SETTINGS,
    accept_next,
    empty_store,
    files_of,
    learn,
    learn_waiting,
    made_store,
    manifest_of,
)

from lkge.errors import DamagedFile, RunError
from lkge.store.arrays import mapped
from lkge.store.inbox import waiting
from lkge.store.records import INIT, ROLLBACK, Options
from lkge.store.versions import BATCH, MANIFEST, MODEL, STORE, Store
from lkge.training.checkpoint import read_checked_json, write_checked_json


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_a_new_store_has_version_0(tmp_path: Path) -> None:
    store = empty_store(tmp_path / "KG", keep=3, known=False)
    assert (store.versions(), store.newest()) == ([0], 0)
    assert (store.config, store.options) == (SETTINGS, Options(3, known=False))
    assert names_in(tmp_path) == ["KG"]
    assert names_in(tmp_path / "KG") == ["inbox", "store.json", "versions"]
    assert Store(tmp_path / "KG").manifest(0) == store.manifest(0)


def test_an_empty_folder_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "KG").mkdir()
    assert empty_store(tmp_path / "KG").newest() == 0


def test_a_folder_with_something_in_it_does_not(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="not empty; choose another folder"):
        empty_store(tmp_path)
    assert names_in(tmp_path) == ["file"]


def test_where_nothing_can_be_written_there_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="KG: cannot be written"):
        empty_store(tmp_path / "file" / "KG")


@pytest.mark.parametrize("name", ["none", "file", "folder"])
def test_what_is_not_a_store_is_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match=f"{name}: not a store: .* `lkge init`"):
        Store(tmp_path / name)


def test_what_is_published_is_there(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 2)
    assert (store.versions(), store.newest()) == ([0, 1, 2], 2)
    for name, arrays in files_of(2).items():
        stored = mapped(store.folder_of(2) / name)
        assert stored.keys() == arrays.keys()
        assert all((stored[each] == np.asarray(arrays[each])).all() for each in arrays)
    manifest = store.manifest(2)
    assert manifest.last_batch == 2
    assert [record.version for record in manifest.log] == [0, 1, 2]
    assert names_in(store.folder_of(2)) == sorted([*files_of(2), MANIFEST, BATCH])
    assert set(manifest.files) == {*files_of(2), BATCH}


def test_a_version_without_a_batch_has_none(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    manifest = manifest_of(2, store.manifest(1).log, kind=ROLLBACK)
    store.publish(2, files_of(2), manifest)
    assert BATCH not in store.manifest(2).files
    assert store.manifest(2).last_batch == 1


def test_only_the_next_version_can_be_published(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    log = store.manifest(1).log
    with pytest.raises(RunError, match="000001: cannot be published: version 2 is next"):
        store.publish(1, files_of(1), manifest_of(1, log[:1], kind=ROLLBACK))
    with pytest.raises(RunError, match="version 2 is next"):
        store.publish(2, files_of(1), manifest_of(1, log[:1], kind=ROLLBACK))


def test_a_log_has_no_gap(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="from version 0 to 2 without a gap"):
        manifest_of(2, (), kind=INIT)


def test_a_version_takes_only_a_batch_that_waits(tmp_path: Path) -> None:
    store = empty_store(tmp_path / "KG")
    batch = accept_next(store)
    with pytest.raises(RunError, match=r"00000002\.json: cannot be read"):
        learn(store, replace(batch, number=2))
    assert store.versions() == [0]


# What is kept


@pytest.mark.parametrize(("keep", "kept"), [(1, [4, 5]), (2, [4, 5]), (3, [3, 4, 5])])
def test_the_newest_versions_are_kept(tmp_path: Path, keep: int, kept: list[int]) -> None:
    store = made_store(tmp_path / "KG", 5, keep=keep)
    assert store.versions() == kept
    assert names_in(store.folder_of_versions) == [f"{version:06d}" for version in kept]
    assert [record.version for record in store.manifest(5).log] == list(range(6))


def test_a_damaged_version_does_not_count_among_those_kept(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 2, keep=2)
    truncate(store.folder_of(1) / MODEL)
    accept_next(store)
    learn_waiting(store)
    assert store.versions() == [2, 3]
    truncate(store.folder_of(2) / MODEL)
    shutil.copytree(store.folder_of(2), store.folder_of(1))
    store.tidy()
    assert store.versions() == [1, 2, 3]


def test_mapped_arrays_outlive_the_version(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1, keep=2)
    rows = mapped(store.folder_of(0) / MODEL)["tables.entity"]
    accept_next(store)
    learn_waiting(store)
    assert store.versions() == [1, 2]
    assert rows.tolist() == [[0, 1], [2, 3]]


# Which version is the newest


@pytest.mark.parametrize("name", [MANIFEST, MODEL, BATCH])
def test_a_damaged_version_is_not_the_newest(tmp_path: Path, name: str) -> None:
    store = made_store(tmp_path / "KG", 2)
    truncate(store.folder_of(2) / name)
    assert (store.versions(), store.newest()) == ([0, 1, 2], 1)
    with pytest.raises(DamagedFile, match="000002: damaged; `lkge check --repair`"):
        store.next_version()
    (store.folder_of(1) / name).unlink()
    assert store.newest() == 0


def test_without_a_whole_version_there_is_no_newest(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    for version in store.versions():
        truncate(store.folder_of(version) / MODEL)
    with pytest.raises(DamagedFile, match="KG: no version is whole; restore the folder"):
        store.newest()


def test_a_version_in_the_place_of_another_is_not_whole(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    shutil.copytree(store.folder_of(1), store.folder_of(2))
    with pytest.raises(DamagedFile, match="is of version 1"):
        store.manifest(2)
    assert store.newest() == 1


def test_what_has_another_name_is_no_version(tmp_path: Path) -> None:
    store = empty_store(tmp_path / "KG")
    for name in (
        "0000001",
        "1",
        "000002x",
        ".000003.0a1b2c3d.part",
        "\N{ARABIC-INDIC DIGIT ZERO}" * 6,
    ):
        shutil.copytree(store.folder_of(0), store.folder_of_versions / name)
    assert store.versions() == [0]


def test_a_reader_whose_version_is_pruned_reads_the_next(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1, keep=2)
    asked = []

    def slow(version: int) -> float:
        asked.append(version)
        if version == 1:
            for _ in range(2):
                accept_next(store)
                learn_waiting(store)
        return float(mapped(store.folder_of(version) / MODEL)["tables.entity"][0, 0])

    assert store.at_newest(slow) == 3
    assert asked == [1, 3]


def test_a_reader_that_meets_damage_is_told(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    path = store.folder_of(1) / MODEL
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(DamagedFile, match=MODEL):
        store.at_newest(lambda version: mapped(store.folder_of(version) / MODEL))


def test_a_newest_version_pruned_under_the_eyes_of_a_reader_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made_store(tmp_path / "KG", 3, keep=2)
    listings = iter([[0, 1], [2, 3]])
    monkeypatch.setattr(Store, "versions", lambda _: next(listings))
    assert store.newest() == 3


# Tidying


def test_a_writer_tidies_what_crashes_left(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    batch = accept_next(store)
    learn(store, batch)
    later = accept_next(store)
    before = names_in(store.folder)
    for folder in (store.folder, store.folder_of_versions, store.inbox):
        (folder / ".file.0a1b2c3d.part").touch()
        (folder / ".folder.0a1b2c3d.part" / "inside").mkdir(parents=True)
    store.tidy()
    assert names_in(store.folder) == before
    assert names_in(store.folder_of_versions) == ["000000", "000001", "000002"]
    assert names_in(store.inbox) == ["00000003.json"]
    assert waiting(store) == [later]


def test_nothing_is_written_without_the_options(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    batch = accept_next(store)
    root = store.folder / STORE
    write_checked_json(root, {**read_checked_json(root), "format": 9})
    with pytest.raises(RunError, match=r"store\.json: written in format 9"):
        store.tidy()
    with pytest.raises(RunError, match=r"store\.json"):
        learn(store, batch)
    assert store.newest() == 1
