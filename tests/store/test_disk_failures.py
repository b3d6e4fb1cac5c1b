"""Publishing and accepting on a disk that fails at each of its operations in turn."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.faults import OPERATIONS, DeadDisk, FullDisk, PowerCut, failing
from tests.store.made import (
    accept_next,
    content_of,
    empty_store,
    facts_of,
    learn,
    learn_waiting,
    made_store,
)

from lkge.errors import RunError
from lkge.store import inbox
from lkge.store.checking import check
from lkge.store.graph import LivingGraph
from lkge.store.queue import damaged_batches
from lkge.store.reader import open_reader
from lkge.store.versions import Store

DISKS = pytest.mark.parametrize("make_disk", [FullDisk, DeadDisk])
MakeDisk = Callable[[int], FullDisk]
Work = Callable[[Store], Any]


@pytest.fixture
def original(tmp_path: Path) -> Store:
    """Two versions are kept, version 2 is the newest, and the batch for version 3 waits."""
    store = made_store(tmp_path / "original", 2, keep=2)
    accept_next(store)
    return store


@pytest.fixture
def expected(original: Store, tmp_path: Path) -> dict[str, bytes]:
    """All files of version 3."""
    store = copied(original, tmp_path / "expected")
    learn_waiting(store)
    return content_of(store, 3)


def copied(store: Store, folder: Path) -> Store:
    return Store(shutil.copytree(store.folder, folder))


def fails(work: Work, store: Store, disk: FullDisk) -> RunError | None:
    """What is told when `work` is done on this disk."""
    with failing(disk, *OPERATIONS), suppress(PowerCut):
        try:
            work(store)
        except RunError as error:
            return error
    return None


def learn_first(store: Store) -> None:
    learn(store, inbox.waiting(store)[0])


def leftovers(store: Store) -> list[Path]:
    return list(store.folder.rglob(".*.part"))


@DISKS
def test_a_failure_while_publishing_leaves_the_old_version_or_the_new(
    original: Store, expected: dict[str, bytes], tmp_path: Path, make_disk: MakeDisk
) -> None:
    found = []
    for calls in range(1000):
        store, disk = copied(original, tmp_path / f"{calls}"), make_disk(calls)
        told = fails(learn_first, store, disk)
        if not disk.failed:
            break
        newest = store.newest()
        found.append(newest)
        assert check(store) == []
        assert newest in (2, 3)
        assert len(store.versions()) >= 2
        if newest == 3:
            assert content_of(store, 3) == expected
        elif make_disk is FullDisk:
            assert re.search(r"/(versions|data)/000003|/log\.jsonl", str(told))
            assert ".part" not in str(told)
            assert str(told).endswith(
                "No space left on device; make room on the disk and try again"
            )
            assert not leftovers(store)
        learn_waiting(store)
        assert content_of(store, 3) == expected
        assert (store.versions(), inbox.waiting(store), leftovers(store)) == ([2, 3], [], [])
        assert check(store) == []
    assert sorted(found) == found
    assert found.count(2) > 20
    assert found.count(3) > 5


@DISKS
def test_a_failure_while_making_a_store_leaves_none_or_all_of_it(
    tmp_path: Path, make_disk: MakeDisk
) -> None:
    made = []
    for calls in range(1000):
        folder, disk = tmp_path / f"{calls}" / "KG", make_disk(calls)
        folder.parent.mkdir()
        with failing(disk, *OPERATIONS), suppress(PowerCut, RunError):
            empty_store(folder)
        if not disk.failed:
            break
        made.append(folder.exists())
        store = Store(folder) if folder.exists() else empty_store(folder)
        assert (store.newest(), check(store)) == (0, [])
    assert made.count(False) > 20
    assert made[-1]


@DISKS
def test_a_batch_is_accepted_whole_or_not_at_all(
    original: Store, tmp_path: Path, make_disk: MakeDisk
) -> None:
    first = inbox.waiting(original)
    for calls in range(1000):
        store, disk = copied(original, tmp_path / f"{calls}"), make_disk(calls)
        told = fails(lambda store: inbox.accept(store, facts_of(8)), store, disk)
        if not disk.failed:
            break
        assert check(store) == []
        waits = inbox.waiting(store)
        assert waits[:1] == first
        assert [batch.added for batch in waits[1:]] in ([], [facts_of(8)])
        if make_disk is FullDisk:
            assert f"{store.batch_file(4)}: cannot be written: No space" in str(told)
            assert (waits, leftovers(store)) == (first, [])
        after = inbox.accept(store, facts_of(9))
        assert after.number == waits[-1].number + 1
        store.tidy()
        assert inbox.waiting(store) == [*waits, after]
        assert leftovers(store) == []
    assert calls == 4
    assert len(inbox.waiting(store)) == 2


def test_what_is_acknowledged_survives_a_cut_of_power_right_after(original: Store) -> None:
    disk = DeadDisk(1000)
    with failing(disk, *OPERATIONS):
        batch = inbox.accept(original, facts_of(8))
        learn_first(original)
        assert not disk.unsynced
    assert inbox.waiting(original) == [batch]


def test_every_rename_is_made_to_last(original: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever takes a name was synced before it, and the folder with the name right after it."""
    acts: list[tuple[str, Path]] = []
    replace, fsync = os.replace, os.fsync

    def replacing(source: Path, target: Path) -> None:
        acts.append(("from", Path(source)))
        replace(source, target)
        acts.append(("to", Path(target)))

    def syncing(descriptor: int) -> None:
        acts.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    monkeypatch.setattr(os, "replace", replacing)
    monkeypatch.setattr(os, "fsync", syncing)
    inbox.accept(original, facts_of(8))
    learn_first(original)
    renames = [place for place, act in enumerate(acts) if act[0] == "from"]
    assert len(renames) == 2
    for place in renames:
        source, target = acts[place][1], acts[place + 1][1]
        assert ("sync", source.resolve()) in acts[:place]
        assert acts[place + 2] == ("sync", target.parent.resolve())
    published = acts[: renames[1]]
    files = original.manifest(3).files.values()
    written = [original.path_of(file) for each in files for file in each]
    assert {("sync", path.resolve()) for path in (*written, original.log_file)} <= set(published)
    last = max(published.index(("sync", path.resolve())) for path in written)
    assert ("sync", original.data.resolve()) in published[last:], "the names of the files too"


def test_what_goes_is_gone_for_good_only_after_the_new_version_is_there(
    original: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[str] = []
    replace, unlink = os.replace, os.unlink
    monkeypatch.setattr(os, "replace", lambda *paths: (replace(*paths), acts.append("published")))
    monkeypatch.setattr(
        os, "unlink", lambda path, **rest: (acts.append(Path(path).name), unlink(path, **rest))
    )
    learn_first(original)
    gone = [act for act in acts if act.startswith("000001")]
    assert gone[0] == "000001.json", "a manifest goes before the files that it names"
    assert len(gone) > 5
    assert acts.index("published") < acts.index("000001.json")


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_what_is_no_damage_does_not_pass_for_it(
    original: Store, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """A file that cannot be opened now may be sound: no older version answers, no batch goes."""
    newest, waits = original.path_of(original.manifest(2).files["model"][0]), original.batch_file(3)
    assert original.batch_numbers() == [3]
    really = os.open

    def refusing(path: str, *rest: Any, **options: Any) -> int:
        if Path(path) in (newest, waits):
            raise OSError(error, os.strerror(error), str(path))
        return really(path, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        for work in (open_reader, lambda folder: check(Store(folder))):
            with pytest.raises(RunError, match=f"{newest}: .*; "):
                work(original.folder)
        with pytest.raises(RunError, match=f"{waits}: .*; "):
            damaged_batches(original)
    assert original.newest() == 2
    assert check(original) == []


def test_a_batch_is_not_set_aside_for_an_error_of_the_disk(
    original: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, waits = os.open, original.batch_file(3)

    def refusing(path: str, *rest: Any, **options: Any) -> int:
        if Path(path) == waits:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return really(path, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        with pytest.raises(RunError, match="the disk may fail"):
            damaged_batches(original)
    assert damaged_batches(original) == {}


@pytest.mark.parametrize("name", ["versions", "tags.json", "skipped.json", "set_aside"])
def test_a_stat_that_fails_is_one_line_with_a_remedy(
    original: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    really, path = os.stat, original.folder / name

    def refusing(asked: Any, *rest: Any, **options: Any) -> os.stat_result:
        if asked == path or str(asked) == str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return really(asked, *rest, **options)

    monkeypatch.setattr(os, "stat", refusing)

    def all_of_it() -> None:
        graph = LivingGraph(original.folder)
        _ = graph.tags, graph.queue(), graph.add(facts_of(9))

    works: list[Callable[[], object]] = [all_of_it]
    if name in ("skipped.json", "set_aside"):
        works.append(lambda: inbox.accept(original, facts_of(9)))
    for work in works:
        with pytest.raises(RunError, match=f"{path}: .*Input/output error; the disk may fail"):
            work()


@pytest.mark.parametrize("call", ["stat", "listdir"])
def test_an_export_into_a_folder_that_cannot_be_read_says_so(
    original: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    really, target, graph = getattr(os, call), tmp_path / "export", LivingGraph(original.folder)
    target.mkdir()

    def refusing(asked: Any, *rest: Any, **options: Any) -> Any:
        if str(asked) == str(target):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(target))
        return really(asked, *rest, **options)

    monkeypatch.setattr(os, call, refusing)
    with pytest.raises(RunError, match=f"{target}: .*Input/output error; the disk may fail"):
        graph.export(target)
