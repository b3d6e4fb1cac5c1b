"""Writing that leaves all or nothing: whoever looks sees the old file or the whole new one."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lkge.errors import DataError


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
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        elif temporary.exists():
            temporary.unlink()


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
        raise DataError(f"cannot be written: {error.strerror or error}", file=path) from error


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Whether this process holds the lock file `path` within the block.

    False: another process holds it. The system lets go when a process ends, however it ends.
    """
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
