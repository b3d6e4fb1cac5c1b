from __future__ import annotations

from pathlib import Path

import pytest

from lkge.data.files import (
    as_data_error,
    held,
    unfinished,
    write_bytes_atomically,
    write_text_atomically,
)
from lkge.errors import DataError


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
