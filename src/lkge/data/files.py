"""Atomic writing of files and folders: a reader sees the old content or the whole new content."""

import errno
import fcntl
import math
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from lkge.errors import DataError, RunError

LEFTOVER = ".*.part"
"""The pattern of temporary files that a crash in `unfinished` leaves in the folder."""

SETTLED = 20_000_000
"""Nanoseconds after a change of a folder from which on another change gives it another time: the
clock of a file system ticks every 10 ms at least, or in whole seconds."""

_LOCK_PAUSE = 0.01
"""Seconds between two tries to get a lock."""

_REMEDIES = {
    errno.ENOSPC: "; make room on the disk and try again",
    errno.EDQUOT: "; make room within the quota and try again",
    errno.EACCES: "; get leave to write there, or choose another place",
    errno.EROFS: "; mount it for writing, or choose another place",
    errno.ENOLCK: "; this file system has no locks: choose a place on another disk",
    errno.EOPNOTSUPP: "; this file system cannot do that: choose a place on another disk",
    errno.EMFILE: "; allow more open files (`ulimit -n`) and try again",
    errno.ENFILE: "; too many files are open on this machine; try again later",
    errno.EFBIG: "; allow larger files (`ulimit -f`), or choose another disk",
    errno.EINTR: "; try again",
    errno.ENOMEM: "; close other programs and try again",
    errno.EIO: "; the disk may fail: save what is on it, and choose another one",
}

_PASSING = (errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the process or the machine: they say nothing of a file."""


def write_bytes_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file in the same folder."""
    with unfinished(path) as temporary:
        write_bytes_through(temporary, data)


def write_text_atomically(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path` by way of a temporary file in the same folder."""
    write_bytes_atomically(path, text.encode("utf-8"))


def write_bytes_through(path: Path, data: bytes) -> None:
    """Write a new file and sync it to the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A temporary path in the folder of `path`. A file or folder that the block creates there
    replaces `path` if the block ends without an exception. A folder can only replace an empty one.
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
    """A new temporary folder, which replaces `path` if the block ends without an exception.

    The folder is synced to the disk. The block must sync the files in the folder.
    """
    with unfinished(path) as temporary:
        temporary.mkdir()
        yield temporary
        sync_folder(temporary)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it that are missing; each new entry is synced to the disk."""
    if not folder.is_dir():
        make_folders(folder.parent)
        with suppress(FileExistsError):  # another process made it
            folder.mkdir()
        sync_folder(folder.parent)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder tree; errors of the file system are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        with suppress(OSError):
            path.unlink()


def remove_at_once(folder: Path) -> None:
    """Remove a folder tree atomically; errors of the file system are ignored."""
    temporary = _beside(folder)
    with suppress(OSError):
        os.replace(folder, temporary)
        sync_folder(folder.parent)
        remove(temporary)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of crashed writers; no writer may be active in `folder`."""
    for name in os.listdir(folder) if folder.is_dir() else ():
        if name.startswith(".") and name.endswith(".part"):
            remove(folder / name)


def numbers(folder: Path, pattern: str) -> list[int]:
    """The numbers in those names in `folder` that are of the pattern, ascending."""
    try:
        names = "/".join(["", *os.listdir(folder), ""])  # no name has a slash
    except OSError as error:
        raise RunError(f"{finished(folder)}: cannot be read: {reason_of(error)}") from error
    return sorted(int(match[1]) for match in re.finditer(f"(?<=/){pattern}(?=/)", names, re.ASCII))


class Numbers:
    """The numbers in the names of a folder, as `numbers` has them. A folder that has not changed is
    not listed again."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder, self._pattern = folder, pattern
        self._listed: tuple[int, int] | None = None
        self._numbers: list[int] = []

    def __call__(self) -> list[int]:
        """The numbers of now, ascending."""
        try:
            state = os.stat(self._folder)
        except OSError as error:
            where = finished(self._folder)
            raise RunError(f"{where}: cannot be read: {reason_of(error)}") from error
        now = state.st_ino, state.st_mtime_ns
        if now != self._listed:
            self._numbers = numbers(self._folder, self._pattern)
            age, is_fine = time.time_ns() - state.st_mtime_ns, state.st_mtime_ns % 10**9 > 0
            self._listed = now if is_fine and age > SETTLED else None
        return list(self._numbers)


def sync_folder(folder: Path) -> None:
    """Sync the entries of `folder` to the disk, for example after a rename."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def as_data_error(path: Path) -> Iterator[None]:
    """Raise an OSError of the block, which writes `path`, as a DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(_cannot_be_written(error), file=path) from error


@contextmanager
def as_run_error(path: Path) -> Iterator[None]:
    """Raise an OSError of the block, which writes `path`, as a RunError with the final path."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{finished(path)}: {_cannot_be_written(error)}") from error


@contextmanager
def with_remedies(folder: Path) -> Iterator[None]:
    """Raise an OSError of the block that has a remedy as a RunError, which names the path of the
    error, or `folder` if it has none. For what asks for the state of files in many places."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        path = Path(os.fsdecode(error.filename)) if error.filename else folder
        raise RunError(f"{finished(path)}: {reason_of(error)}") from error


def is_passing(error: BaseException | None, *, of_disk: bool = False) -> bool:
    """Whether an error, or what caused it, says nothing of the file that it names: with fewer open
    files or more memory that could be read. With `of_disk` an error of the disk is one of these."""
    while error and not isinstance(error, OSError):
        error = error.__cause__
    passing = (*_PASSING, errno.EIO) if of_disk else _PASSING
    return isinstance(error, OSError) and error.errno in passing


def _beside(path: Path) -> Path:
    """A free path that matches LEFTOVER; `finished` is the inverse."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def finished(path: Path) -> Path:
    """The final path of a path in a temporary file or folder."""
    return Path(*(re.sub(r"^\.(.+)\.[0-9a-f]{8}\.part$", r"\1", part) for part in path.parts))


def _cannot_be_written(error: OSError) -> str:
    return f"cannot be written: {reason_of(error)}"


def reason_of(error: OSError) -> str:
    """What is wrong, and the remedy if one is known; without the path."""
    return f"{error.strerror or error}{_REMEDIES.get(error.errno or 0, '')}"


@contextmanager
def held(path: Path, *, wait: bool | float = False) -> Iterator[bool]:
    """Hold an exclusive lock on the file `path`, against other processes and threads. The value is
    whether the block holds the lock: False if another holds it, and `wait` is False or so many
    seconds have passed. The operating system releases the lock when the process ends or crashes.
    """
    with as_run_error(path):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        lock = os.fdopen(os.open(path, flags, 0o666), "rb", buffering=0)
    with lock:
        if not stat.S_ISREG(os.fstat(lock.fileno()).st_mode):
            raise RunError(f"{path}: not a file; remove what is in its place")
        with as_run_error(path):
            alone = _locked(lock, math.inf if wait is True else time.monotonic() + wait)
        yield alone


def _locked(lock: IO[bytes], until: float) -> bool:
    """Lock an open file, at the latest at a time, which may be infinite; whether it worked."""
    if until == math.inf:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return True
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(_LOCK_PAUSE)
