"""Names of versions, and which versions stay on the disk."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from tests.faults import OPERATIONS, DeadDisk, FullDisk, PowerCut, failing
from tests.store.living import made
from tests.store.made import accept_next, bytes_of, learn_waiting, made_store

from lkge.data.checked_json import write_checked_json
from lkge.errors import DamagedFile, LkgeError, RunError, SettingsError
from lkge.living import init, open
from lkge.store.checking import check
from lkge.store.locks import writing
from lkge.store.records import Options
from lkge.store.repairing import repair
from lkge.store.retention import changed_options, created_time, versions_to_remove
from lkge.store.tags import TAGS, add_tag, delete_tag, is_tag_name, read_tags, write_tags
from lkge.store.versions import MODEL, Store

NOW = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("name", ["before-import", "v1.2", "2026-01-10_a", "übung", "x" * 64])
def test_plain_words_are_tags(tmp_path: Path, name: str) -> None:
    assert is_tag_name(name)
    add_tag(tmp_path, name, 3)
    assert read_tags(tmp_path) == {name: 3}


@pytest.mark.parametrize(
    "name", ["", "12", "1.2", "-x", ".x", "a/b", "..", "a b", "a\n", "x" * 65, "a\x00", "²"]
)
def test_numbers_paths_and_options_are_none(tmp_path: Path, name: str) -> None:
    assert not is_tag_name(name)
    with pytest.raises(SettingsError, match="cannot be a tag"):
        add_tag(tmp_path, name, 3)
    assert not (tmp_path / TAGS).exists()
    write_checked_json(tmp_path / TAGS, {"format": 2, "tags": {name: 3}})
    with pytest.raises(DamagedFile):
        read_tags(tmp_path)


def test_a_tag_names_one_version(tmp_path: Path) -> None:
    add_tag(tmp_path, "b", 3)
    add_tag(tmp_path, "b", 3)
    add_tag(tmp_path, "a", 3)
    with pytest.raises(RunError, match="names version 3; delete it first"):
        add_tag(tmp_path, "b", 4)
    assert list(read_tags(tmp_path).items()) == [("a", 3), ("b", 3)]
    assert delete_tag(tmp_path, "b") == 3
    with pytest.raises(RunError, match="no tag 'b'; there are: a"):
        delete_tag(tmp_path, "b")


def test_a_tag_stands_for_its_version_in_python(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=1, backend="torch")
    before = graph.similar("person 3")
    assert graph.tag("first") == 1
    assert graph.tag("empty", 0) == 0
    assert graph.tag("first", "first") == 1
    graph.add([("person 3", "knows 1", "person 30")])
    assert open(tmp_path / "KG", "first").similar("person 3") == before
    assert open(tmp_path / "KG", "1").version == 1
    assert graph.rollback("first").source == "version 1"
    assert graph.tags == {"empty": 0, "first": 1}
    assert graph.delete_tag("empty") == 0
    with pytest.raises(RunError, match="no tag 'empty'"):
        open(tmp_path / "KG", "empty")
    with pytest.raises(RunError, match="no version 9"):
        graph.tag("x", 9)


def test_tagged_versions_are_not_pruned(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 2, keep=2)
    assert store.versions() == [1, 2]
    add_tag(store.folder, "one", 1)
    store = again(store.folder, 3)
    assert store.versions() == [1, 4, 5]
    delete_tag(store.folder, "one")
    store.tidy()
    assert store.versions() == [4, 5]


def again(folder: Path, versions: int) -> Store:
    store = Store(folder)
    for _ in range(versions):
        accept_next(store)
        learn_waiting(store)
    return store


@pytest.mark.parametrize(
    ("keep", "days", "tagged", "removed"),
    [
        (3, 0, {}, [0, 1, 2]),
        (2, 0, {1}, [0, 2, 3]),
        (0, 0, {}, [0, 1, 2, 3]),
        (9, 0, {}, []),
        (2, 7, {}, [0, 1, 2]),
        (2, 8, {}, [0, 1]),
        (2, 365, {0}, [1]),
    ],
)
def test_versions_stay_by_number_age_and_tag(
    keep: int, days: int, tagged: set[int], removed: list[int]
) -> None:
    """Version v is of day v, counted back from version 5 of day 5; version 1 is damaged."""

    def created(version: int) -> datetime | None:
        return None if version == 1 else NOW - timedelta(days=10 - version)

    versions, whole = list(range(6)), {0, 2, 3, 4, 5}
    options = Options(keep, True, days)
    assert (
        versions_to_remove(versions, whole.__contains__, tagged, options, created, NOW) == removed
    )


def test_young_versions_stay(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=1, keep=2, keep_days=1, backend="torch")
    for number in range(3):
        graph.add([("person 3", "knows 1", f"newcomer {number}")])
    assert graph.store.versions() == [0, 1, 2, 3, 4]
    assert graph.keep(versions=3) == Options(3, True, 1)
    assert graph.store.versions() == [0, 1, 2, 3, 4]
    assert graph.keep(days=0) == Options(3, True, 0)
    assert graph.store.versions() == [2, 3, 4]
    assert open(tmp_path / "KG").config == graph.config


def test_a_time_is_read_or_unknown() -> None:
    assert created_time("2026-01-10T00:00:00+00:00") == created_time("2026-01-10") == NOW
    assert created_time("then") is None


@pytest.mark.parametrize(("keep", "days"), [(1, None), (-3, None), (None, -1), (None, 10**9)])
def test_what_cannot_stay_is_refused(tmp_path: Path, keep: int | None, days: int | None) -> None:
    with pytest.raises(SettingsError, match="out of range"):
        changed_options(Options(), keep, days)
    with pytest.raises(SettingsError, match="out of range"):
        init(tmp_path / "KG", keep=keep or 5, keep_days=days or 0)


def test_options_of_a_release_before_are_read(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 0, keep=7)
    path = store.folder / "store.json"
    tree = json.loads(path.read_text())
    del tree["options"]["keep_days"], tree["checksum"]
    write_checked_json(path, tree)
    assert store.options == Options(7, True, 0)


def test_damaged_tags_stop_pruning_and_are_set_aside(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 2, keep=2)
    add_tag(store.folder, "one", 1)
    path = store.folder / TAGS
    path.write_text(path.read_text().replace("one", "two"))
    store = again(store.folder, 2)
    assert store.versions() == [1, 2, 3, 4], "nobody knows which of them are tagged"
    (damage,) = check(store)
    assert (damage.path, damage.version) == (str(path), None)
    (line,) = repair(store)
    assert line.endswith("tag the versions again")
    assert (check(store), store.tags) == ([], {})


def test_a_tag_of_a_version_that_is_set_aside_is_dropped(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 2)
    write_tags(store.folder, {"good": 1, "bad": 2})
    store.paths(2, MODEL)[0].unlink()
    assert any("the tag 'bad' of version 2 is dropped" in line for line in repair(store))
    assert (check(store), store.tags) == ([], {"good": 1})


def test_a_tag_of_no_version_is_damage(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 1)
    write_tags(store.folder, {"good": 1, "bad": 7})
    (damage,) = check(store)
    assert damage.reason == "the tag 'bad' names version 7: not there"
    repair(store)
    assert (check(store), store.tags) == ([], {"good": 1})


@pytest.mark.parametrize("make_disk", [FullDisk, DeadDisk])
def test_a_failing_disk_leaves_the_old_tags_or_the_new(
    tmp_path: Path, make_disk: type[FullDisk]
) -> None:
    original = made_store(tmp_path / "original", 1)
    add_tag(original.folder, "old", 0)
    found = []
    for calls in count():
        folder = Path(shutil.copytree(original.folder, tmp_path / f"{calls}"))
        disk = make_disk(calls)
        with failing(disk, *OPERATIONS), suppress(PowerCut, RunError):
            add_tag(folder, "new", 1)
        if not disk.failed:
            break
        found.append(read_tags(folder))
        assert bytes_of(folder / "versions") == bytes_of(original.folder / "versions")
    assert calls > 2
    assert all(tags in ({"old": 0}, {"old": 0, "new": 1}) for tags in found)
    assert read_tags(folder) == {"old": 0, "new": 1}


def test_a_tag_is_refused_while_another_writes(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=1, backend="torch")
    with writing(graph.store, "add"), pytest.raises(LkgeError, match="being written"):
        graph.tag("x")
