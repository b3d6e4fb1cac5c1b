"""Writing that leaves all or nothing: whoever looks sees the old file or the whole new one."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lkge.errors import DataError, RunError

LEFTOVER = ".*.part"
"""What a crash in `unfinished` may leave beside the file or folder that was being written."""

_REMEDIES = {
    errno.ENOSPC: "; make room on the disk and try again",
    errno.EDQUOT: "; make room within the quota and try again",
    errno.EACCES: "; get leave to write there, or choose another place",
    errno.EROFS: "; mount it for writing, or choose another place",
}


def write_bytes_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`, through a file beside it."""
    with unfinished(path) as temporary:
        write_bytes_through(temporary, data)


def write_text_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, through a file beside it."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_through(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A free path beside `path`, for a file or folder that takes its place if the block ends well.

    A folder can only take the place of an empty one.
    """
    temporary = _beside(path)
    try:
        yield temporary
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        remove(temporary)


@contextmanager
def unfinished_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, which takes its place if the block ends well.

    Its own entries are on the disk before that; the files in it must be by the end of the block.
    """
    with unfinished(path) as temporary:
        temporary.mkdir()
        yield temporary
        sync_folder(temporary)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it, as far as the disk lets it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists():
        with suppress(OSError):
            path.unlink()


def remove_at_once(folder: Path) -> None:
    """Remove a folder as far as the disk lets it; who looks sees all of it or nothing."""
    temporary = _beside(folder)
    with suppress(OSError):
        os.replace(folder, temporary)
        sync_folder(folder.parent)
        remove(temporary)


def remove_leftovers(folder: Path) -> None:
    """Remove what crashes left unfinished in `folder`; nobody may be writing there."""
    for leftover in folder.glob(LEFTOVER):
        remove(leftover)


def sync_folder(folder: Path) -> None:
    """Wait until a rename within `folder` is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def as_data_error(path: Path) -> Iterator[None]:
    """Tell of a failure to write `path` as a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(_cannot_be_written(error), file=path) from error


@contextmanager
def as_run_error(path: Path) -> Iterator[None]:
    """Tell of a failure to write `path` as a RunError, under the name it has when finished."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{_finished(path)}: {_cannot_be_written(error)}") from error


def _beside(path: Path) -> Path:
    """A free path that LEFTOVER matches, and from which `_finished` knows `path`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def _finished(path: Path) -> Path:
    """What a path within something unfinished will be in the end."""
    return Path(*(re.sub(r"^\.(.+)\.[0-9a-f]{8}\.part$", r"\1", part) for part in path.parts))


def _cannot_be_written(error: OSError) -> str:
    return f"cannot be written: {error.strerror or error}{_REMEDIES.get(error.errno or 0, '')}"


@contextmanager
def held(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether the lock file `path` is held within the block, to the exclusion of other processes
    and of other threads.

    False, unless it may `wait`: another holds it. The system lets go when a process ends, however
    it ends.
    """
    with as_run_error(path):
        lock = path.open("a", encoding="utf-8")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
