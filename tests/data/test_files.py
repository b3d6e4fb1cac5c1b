from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from lkge.data import files
from lkge.data.files import (
    Numbers,
    as_data_error,
    as_run_error,
    held,
    make_folders,
    remove,
    remove_at_once,
    remove_leftovers,
    unfinished,
    unfinished_folder,
    write_bytes_atomically,
    write_text_atomically,
)
from lkge.errors import DataError, RunError


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes_atomically(path, b"old")
    write_text_atomically(path, "nëw")
    assert path.read_text(encoding="utf-8") == "nëw"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail_halfway() -> None:
        with unfinished(path) as temporary:
            temporary.write_bytes(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_halfway()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with unfinished(folder) as temporary:
        temporary.mkdir()
        (temporary / "file").write_bytes(b"new")
    assert (folder / "file").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "file"
    with pytest.raises(FileNotFoundError):
        write_bytes_atomically(path, b"new")
    with pytest.raises(DataError, match="file: cannot be written"), as_data_error(path):
        write_bytes_atomically(path, b"new")


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with held(tmp_path / "lock") as first, held(tmp_path / "lock") as second:
        assert (first, second) == (True, False)
    with held(tmp_path / "lock") as again:
        assert again


def test_a_lock_can_be_waited_for(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with held(tmp_path / "lock", wait=True) as mine:
            order.append(("second", mine))

    with held(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.1)
        order.append(("first", True))
    thread.join(30)
    assert order == [("first", True), ("second", True)]


def test_a_lock_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="lock: cannot be written"), held(tmp_path / "no" / "lock"):
        pytest.fail("there was no lock to hold")


def test_a_folder_appears_with_all_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with unfinished_folder(folder) as temporary:
        (temporary / "file").write_bytes(b"new")
        assert not folder.exists()
    assert (folder / "file").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [folder]


def test_an_unfinished_file_is_told_of_by_its_real_name(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        with unfinished_folder(path) as temporary, as_run_error(temporary / "file"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(RunError) as caught:
        fail(tmp_path / "folder")
    why = "No space left on device; make room on the disk and try again"
    assert str(caught.value) == f"{tmp_path / 'folder' / 'file'}: cannot be written: {why}"
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_removed_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with monkeypatch.context() as patch:
        for name in ("unlink", "rmdir", "replace"):
            patch.setattr(os, name, refuse)
        remove(tmp_path / "file")
        remove(tmp_path / "folder")
        remove_at_once(tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    remove(tmp_path / "file")
    remove_at_once(tmp_path / "folder")
    remove(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_leftovers_go_and_all_else_stays(tmp_path: Path) -> None:
    for name in ("file", ".hidden", "file.part", ".file.0a1b2c3d.part"):
        (tmp_path / name).touch()
    (tmp_path / ".folder.0a1b2c3d.part" / "inside").mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "file", "file.part"]


def test_a_folder_is_on_the_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acts: list[int | str] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda file: acts.append(os.fstat(file).st_ino))

    def replacing(source: Path, target: Path) -> None:
        acts.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replacing)
    with unfinished_folder(tmp_path / "folder") as temporary:
        inode = temporary.stat().st_ino
    assert acts == [inode, "replace", tmp_path.stat().st_ino]


def test_new_folders_are_synced_up_to_the_first_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def recording(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        fsync(file)

    monkeypatch.setattr(os, "fsync", recording)
    make_folders(tmp_path / "a" / "b")
    assert synced == [path.stat().st_ino for path in (tmp_path, tmp_path / "a")]
    make_folders(tmp_path / "a" / "b")
    assert len(synced) == 2


def test_of_a_link_only_the_link_is_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    for name, target in (("link", "folder"), ("dangling", "none")):
        (tmp_path / name).symlink_to(target)
        remove(tmp_path / name)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "file"]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room on the disk"),
        (errno.ENOLCK, "this file system has no locks: choose a place on another disk"),
    ],
)
def test_a_lock_that_cannot_be_had_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", fail)
    message = f"lock: cannot be written: .*{remedy}"
    with pytest.raises(RunError, match=message), held(tmp_path / "lock"):
        pytest.fail("there was no lock to hold")


def test_a_pipe_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with pytest.raises(RunError, match="not a file"), held(tmp_path / "lock"):
        pytest.fail("there was no lock to hold")


def test_a_folder_that_has_settled_is_listed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    monkeypatch.setattr(files, "numbers", lambda folder, _: listed.append(folder) or [3])
    now = Numbers(tmp_path, r"(\d+)")
    assert now() == now() == [3]
    assert len(listed) == 2  # it was made a moment ago, and may change again at the same time
    os.utime(tmp_path, ns=(1, 1))
    assert [now(), now(), now()] == [[3]] * 3
    assert len(listed) == 3
    (tmp_path / "4").touch()
    now()
    assert len(listed) == 4


def test_a_folder_whose_times_are_whole_seconds_is_always_listed(tmp_path: Path) -> None:
    now = Numbers(tmp_path, r"(\d+)")
    for number in range(3):
        (tmp_path / str(number)).touch()
        os.utime(tmp_path, (0, 0))
        assert now() == list(range(number + 1))


def test_changes_of_a_folder_at_any_moment_are_seen(tmp_path: Path) -> None:
    now = Numbers(tmp_path, r"(\d+)")
    for number in range(50):
        (tmp_path / str(number)).touch()
        assert now() == list(range(number + 1))
