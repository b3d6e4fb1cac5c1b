"""Crash states of every operation: a sample here, thousands of each in `make torture`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torture.crash import Recording, crash, drop_sites
from tests.torture.disk import Disk, Tree, tree_of
from tests.torture.filesystem import Recorder, watched
from tests.torture.operations import OPERATIONS, Operation

BY_NAME = {operation.name: operation for operation in OPERATIONS}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_after_a_crash_the_graph_is_sound_and_goes_on(operation: Operation, tmp_path: Path) -> None:
    found = crash(Recording.of(operation, tmp_path), most=7)
    assert found.problems == []
    assert found.states >= 5


def test_no_sync_can_be_taken_out_unnoticed(tmp_path: Path) -> None:
    """By the place in the code that asks for it. Some operations have a second one that does."""
    needed: set[str] = set()
    sites: set[str] = set()
    for name in ("accept", "export", "init", "keep"):
        for dropped in drop_sites(Recording.of(BY_NAME[name], tmp_path / name), needed):
            sites.add(dropped.site)
            needed |= {dropped.site} if dropped.problem else set()
    assert len(sites) >= 7
    assert sites == needed


def test_a_change_that_is_not_seen_is_found_out(tmp_path: Path) -> None:
    def unseen(place: Path, _: object) -> None:
        BY_NAME["tag"].run(place, lambda: None)
        os.posix_fallocate(file := os.open(place / "writer.lock", os.O_RDWR), 0, 10)
        os.close(file)

    with pytest.raises(AssertionError, match="unseen"):
        Recording.of(Operation("fallocate", unseen, BY_NAME["tag"].begin), tmp_path)


# The model of the disk

Work = Callable[[Path], object]


def states_after(root: Path, work: Work) -> list[Tree]:
    """All states that a disk may be in after something was done."""
    root.mkdir(exist_ok=True)
    start, recorder = tree_of(root), Recorder()
    with watched(root, recorder):
        work(root)
    disk = Disk.of(root, start, recorder.calls)
    assert disk.end() == tree_of(root)
    return list(disk.states(len(disk.changes), 1000, random.Random(0)))


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def write(path: Path, data: bytes, synced: bool = True) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        if synced:
            os.fsync(file.fileno())


def test_a_file_without_a_sync_may_have_any_content_and_no_name(tmp_path: Path) -> None:
    found = states_after(tmp_path / "a", lambda root: write(root / "x", b"data", synced=False))
    assert {} in found
    contents = [tree["x"] for tree in found if "x" in tree]
    assert {b"", b"da", b"data", bytes(4), b"da\0\0"} < set(contents)
    found = states_after(tmp_path / "b", lambda root: write(root / "x", b"data"))
    assert found == [{"x": b"data"}, {}]


def test_a_synced_file_in_a_synced_folder_is_there(tmp_path: Path) -> None:
    def work(root: Path) -> None:
        write(root / "x", b"data")
        sync(root)

    assert states_after(tmp_path, work) == [{"x": b"data"}]


def test_a_rename_is_one_act_in_a_folder_and_two_between_folders(tmp_path: Path) -> None:
    def within(root: Path) -> None:
        write(root / "x", b"data")
        sync(root)
        os.replace(root / "x", root / "y")

    assert states_after(tmp_path / "a", within) == [{"y": b"data"}, {"x": b"data"}]

    def between(root: Path) -> None:
        (root / "sub").mkdir()
        within(root)
        sync(root)
        os.replace(root / "y", root / "sub" / "z")

    found = states_after(tmp_path / "b", between)
    both, new, old = (
        {"sub": None, "y": b"data", "sub/z": b"data"},
        {"sub": None, "sub/z": b"data"},
        {"sub": None, "y": b"data"},
    )
    assert all(state in found for state in (both, new, old))
    assert {"sub": None} not in found


def test_later_entries_may_last_without_earlier_ones(tmp_path: Path) -> None:
    def work(root: Path) -> None:
        write(root / "x", b"1")
        write(root / "y", b"2")

    assert {"y": b"2"} in states_after(tmp_path, work)


def test_a_write_over_synced_data_may_be_torn(tmp_path: Path) -> None:
    def work(root: Path) -> None:
        write(root / "x", b"aaaa")
        sync(root)
        with (root / "x").open("r+b") as file:
            file.seek(2)
            file.write(b"bb")

    contents = {tree["x"] for tree in states_after(tmp_path, work)}
    assert {b"aaaa", b"aabb", b"aaba", b"aa\0\0"} < contents


def test_an_append_harms_nothing_that_was_synced(tmp_path: Path) -> None:
    def work(root: Path) -> None:
        write(root / "x", b"aaaa")
        sync(root)
        with (root / "x").open("ab") as file:
            file.write(b"bb")

    contents = {tree["x"] for tree in states_after(tmp_path, work)}
    assert {b"aaaa", b"aaaab", b"aaaabb", b"aaaa\0\0"} < contents
    assert all(content.startswith(b"aaaa") for content in contents)
