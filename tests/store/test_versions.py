from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import chain, repeat
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

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.errors import DamagedFile, RunError
from lkge.store import log
from lkge.store.array_files import ArrayFile, mapped
from lkge.store.inbox import waiting
from lkge.store.records import INIT, ROLLBACK, Options
from lkge.store.versions import BATCH, KNOWN, MODEL, STORE, Store


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def file_of(store: Store, version: int, name: str) -> Path:
    return store.manifest_file(version) if name == "manifest" else store.paths(version, name)[0]


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_a_new_store_has_version_0(tmp_path: Path) -> None:
    store = empty_store(tmp_path / "KG", keep=3, known=False)
    assert (store.versions(), store.newest()) == ([0], 0)
    assert (store.config, store.options) == (SETTINGS, Options(3, known=False))
    assert names_in(tmp_path) == ["KG"]
    assert names_in(tmp_path / "KG") == ["data", "inbox", "log.jsonl", "store.json", "versions"]
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
        stored = mapped(store.paths(2, name)[-1])
        assert stored.keys() == arrays.keys()
        assert all((stored[each] == np.asarray(arrays[each])).all() for each in arrays)
    manifest = store.manifest(2)
    assert manifest.last_batch == 2
    assert [record.version for record in store.log(manifest)] == [0, 1, 2]
    assert set(manifest.files) == {*files_of(2), BATCH}
    assert {f"000002-{kind}-base.safetensors" for kind in files_of(2)} < manifest.names
    assert set(names_in(store.data)) == {n for v in range(3) for n in store.manifest(v).names}


def test_a_version_without_a_batch_has_none(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    manifest = manifest_of(2, 1, kind=ROLLBACK)
    store.publish(2, files_of(2), manifest)
    assert BATCH not in store.manifest(2).files
    assert store.manifest(2).last_batch == 1


def test_only_the_next_version_can_be_published(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    with pytest.raises(RunError, match=r"000001\.json: cannot be published: version 2 is next"):
        store.publish(1, files_of(1), manifest_of(1, kind=ROLLBACK))
    with pytest.raises(RunError, match="version 2 is next"):
        store.publish(2, files_of(1), manifest_of(1, kind=ROLLBACK))


def test_a_manifest_has_its_own_line_of_the_log() -> None:
    with pytest.raises(ValueError, match="the line of the log is of version 1"):
        replace(manifest_of(2, kind=INIT), record=manifest_of(1, kind=INIT).record)


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
    assert names_in(store.folder_of_versions) == [f"{version:06d}.json" for version in kept]
    assert {name[:6] for name in names_in(store.data)} == {f"{version:06d}" for version in kept}
    assert [record.version for record in store.log(store.manifest(5))] == list(range(6))


def test_a_damaged_version_does_not_count_among_those_kept(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 2, keep=2)
    truncate(store.paths(1, MODEL)[0])
    accept_next(store)
    learn_waiting(store)
    assert store.versions() == [2, 3]
    truncate(store.paths(2, MODEL)[0])
    shutil.copy(store.manifest_file(2), store.manifest_file(1))
    store.tidy()
    assert store.versions() == [1, 2, 3]


def test_mapped_arrays_outlive_the_version(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1, keep=2)
    rows = mapped(store.paths(0, MODEL)[0])["tables.entity"]
    accept_next(store)
    learn_waiting(store)
    assert store.versions() == [1, 2]
    assert rows.tolist() == [[0, 1], [2, 3]]


# Which version is the newest


@pytest.mark.parametrize("name", ["manifest", MODEL, BATCH])
def test_a_damaged_version_is_not_the_newest(tmp_path: Path, name: str) -> None:
    store = made_store(tmp_path / "KG", 2)
    truncate(file_of(store, 2, name))
    assert (store.versions(), store.newest()) == ([0, 1, 2], 1)
    with pytest.raises(DamagedFile, match=r"000002\.json: damaged; `lkge verify --repair`"):
        store.next_version()
    file_of(store, 1, name).unlink()
    assert store.newest() == 0


def test_without_a_whole_version_there_is_no_newest(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    for version in store.versions():
        truncate(store.paths(version, MODEL)[0])
    with pytest.raises(DamagedFile, match="KG: no version is whole; restore the folder"):
        store.newest()


def test_a_version_in_the_place_of_another_is_not_whole(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    shutil.copy(store.manifest_file(1), store.manifest_file(2))
    with pytest.raises(DamagedFile, match="is of version 1"):
        store.manifest(2)
    assert store.newest() == 1


def test_what_has_another_name_is_no_version(tmp_path: Path) -> None:
    store = empty_store(tmp_path / "KG")
    for name in (
        "0000001.json",
        "1.json",
        "000002x.json",
        "000003",
        ".000003.json.0a1b2c3d.part",
        "\N{ARABIC-INDIC DIGIT ZERO}" * 6 + ".json",
    ):
        shutil.copy(store.manifest_file(0), store.folder_of_versions / name)
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
        return float(mapped(store.paths(version, MODEL)[0])["tables.entity"][0, 0])

    assert store.at_newest(slow) == 3
    assert asked == [1, 3]


def test_a_reader_that_meets_damage_is_told(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    path = store.paths(1, KNOWN)[0]
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFile, match=KNOWN):
        store.at_newest(lambda version: ArrayFile(path, store.manifest(version).files[KNOWN][0]))


def test_a_newest_version_pruned_under_the_eyes_of_a_reader_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made_store(tmp_path / "KG", 3, keep=2)
    listings = chain([[0, 1]], repeat([2, 3]))
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
    assert names_in(store.folder_of_versions) == ["000000.json", "000001.json", "000002.json"]
    assert names_in(store.inbox) == ["00000003.json"]
    assert waiting(store) == [later]


def test_nothing_is_written_without_the_options(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    batch = accept_next(store)
    root = store.folder / STORE
    write_checked_json(root, {**read_checked_json(root), "format": {"reader": 9, "writer": 9}})
    with pytest.raises(RunError, match=r"store\.json: written in format 9"):
        store.tidy()
    with pytest.raises(RunError, match=r"store\.json"):
        learn(store, batch)
    assert store.newest() == 1


def test_a_line_of_the_log_is_parsed_once_however_many_versions_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, parsed = made_store(tmp_path / "KG", 4), list[bytes]()
    plain = log._record
    monkeypatch.setattr(log, "_record", lambda line, *rest: (parsed.append(line), plain(line))[1])
    expected = list(store.log(store.manifest(3)))
    assert len(set(parsed)) == len(parsed) == 4
    assert list(store.log(store.manifest(4)))[:4] == expected
    assert len(parsed) == 5
    again = Store(store.folder)
    assert list(again.log(store.manifest(4)))[:4] == expected
    assert len(parsed) == 10, "another process knows nothing of it"
