"""The file system of this process, watched: every call below a folder is seen, and may be refused.

The functions of `os` and `open` are replaced within a block. What does not go through them, such as
a library in C that opens files itself, is not seen; `tests/torture/disk.py` finds out whether
something changed that was not seen.
"""

from __future__ import annotations

import builtins
import fcntl
import inspect
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lkge

PACKAGE = str(Path(lkge.__file__).parent)
HELPERS = ("sync_folder",)
"""Functions that sync what they are given: their callers know why."""
LINES = 3
"""Lines of the package that tell the places apart that a call comes from."""


@dataclass(frozen=True)
class Call:
    """A change of the file system: `create`, `mkdir`, `unlink`, `rmdir`, `rename` and `link` to
    `target`, `write` of `data` at `offset`, `truncate` to `offset` bytes, or `fsync`, which has the
    `site` in the code that asked for it."""

    name: str
    path: str
    target: str = ""
    offset: int = 0
    data: bytes = b""
    site: str = ""


class Watcher:
    """What is done at a call. This one lets everything pass."""

    def before(self, name: str, path: str) -> None:
        """A call begins: one of `Call`, or `open` of what exists, `read`, `list`, `stat`, `flock`.
        An exception is raised in its place; of a `write`, half was done."""

    def after(self, call: Call) -> None:
        """A call that changes something has ended without an error."""


class Recorder(Watcher):
    """Keeps all changes, in order."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def after(self, call: Call) -> None:
        self.calls.append(call)


@contextmanager
def watched(root: Path, watcher: Watcher) -> Iterator[None]:
    """Within the block `watcher` sees every call below `root`, and on `root` itself."""
    place = _Below(str(root.resolve()))
    with pytest.MonkeyPatch.context() as patch:
        opened = _opened(place, watcher)
        for module in (builtins, io):
            patch.setattr(module, "open", opened)
        for name, wrapped in _replacements(place, watcher).items():
            patch.setattr(os, name, wrapped)
        patch.setattr(fcntl, "flock", _flock(place, watcher))
        patch.setattr(shutil, "_USE_CP_SENDFILE", False, raising=False)
        yield


class _Below:
    """Finds the absolute path of what a call names, if it is below the root."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.readlink = os.readlink

    def __call__(self, path: Any, folder: int | None = None) -> str | None:
        if isinstance(path, int):
            return self._kept(self._of_descriptor(path))
        text = os.fsdecode(os.fspath(path))
        if not os.path.isabs(text):
            base = os.getcwd() if folder is None else self._of_descriptor(folder)
            text = os.path.join(base, text)
        return self._kept(os.path.normpath(text))

    def _of_descriptor(self, descriptor: int) -> str:
        try:
            return self.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            return ""

    def _kept(self, path: str) -> str | None:
        inside = path == self.root or path.startswith(self.root + "/")
        return path if inside and not path.endswith(" (deleted)") else None


def _replacements(place: _Below, watcher: Watcher) -> dict[str, Callable[..., Any]]:
    one = {name: _on_one(place, watcher, name) for name in ("mkdir", "rmdir", "unlink")}
    return {
        **one,
        "remove": one["unlink"],
        "rename": _on_two(place, watcher, os.rename, "rename"),
        "replace": _on_two(place, watcher, os.replace, "rename"),
        "link": _on_two(place, watcher, os.link, "link"),
        "open": _os_open(place, watcher),
        "write": _os_write(place, watcher),
        "pwrite": _os_pwrite(place, watcher),
        "truncate": _truncate(place, watcher, os.truncate),
        "ftruncate": _truncate(place, watcher, os.ftruncate),
        "fsync": _fsync(place, watcher, os.fsync),
        "fdatasync": _fsync(place, watcher, os.fdatasync),
        "listdir": _looking(place, watcher, os.listdir, "list"),
        "scandir": _looking(place, watcher, os.scandir, "list"),
        "stat": _looking(place, watcher, os.stat, "stat"),
        "lstat": _looking(place, watcher, os.lstat, "stat"),
        "read": _looking(place, watcher, os.read, "read"),
    }


def _on_one(place: _Below, watcher: Watcher, name: str) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(path: Any, *args: Any, dir_fd: int | None = None) -> Any:
        if (full := place(path, dir_fd)) is None:
            return real(path, *args, dir_fd=dir_fd)
        watcher.before(name, full)
        real(path, *args, dir_fd=dir_fd)
        watcher.after(Call(name, full))
        return None

    return call


def _on_two(
    place: _Below, watcher: Watcher, real: Callable[..., Any], name: str
) -> Callable[..., Any]:
    def call(source: Any, target: Any, **options: Any) -> None:
        one = place(source, options.get("src_dir_fd"))
        two = place(target, options.get("dst_dir_fd"))
        if one is None or two is None:
            assert one is two, f"{name} of {source} to {target} crosses the root"
            return real(source, target, **options)
        watcher.before(name, one)
        real(source, target, **options)
        watcher.after(Call(name, one, two))
        return None

    return call


def _os_open(place: _Below, watcher: Watcher) -> Callable[..., int]:
    real, lstat = os.open, os.lstat

    def exists(path: str) -> bool:
        try:
            lstat(path)
        except OSError:
            return False
        return True

    def call(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if (full := place(path, dir_fd)) is None:
            return real(path, flags, mode, dir_fd=dir_fd)
        is_new = bool(flags & os.O_CREAT) and not exists(full)
        watcher.before("create" if is_new else "open", full)
        descriptor = real(path, flags, mode, dir_fd=dir_fd)
        if is_new:
            watcher.after(Call("create", full))
        elif flags & os.O_TRUNC:
            watcher.after(Call("truncate", full))
        return descriptor

    return call


def _os_write(place: _Below, watcher: Watcher) -> Callable[[int, Any], int]:
    real, seek = os.write, os.lseek

    def call(descriptor: int, data: Any) -> int:
        if (full := place(descriptor)) is None:
            return real(descriptor, data)
        watcher.before("write", full)
        offset = seek(descriptor, 0, os.SEEK_CUR)
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            offset = os.fstat(descriptor).st_size
        done = real(descriptor, data)
        watcher.after(Call("write", full, offset=offset, data=bytes(data)[:done]))
        return done

    return call


def _os_pwrite(place: _Below, watcher: Watcher) -> Callable[[int, Any, int], int]:
    real = os.pwrite

    def call(descriptor: int, data: Any, offset: int) -> int:
        if (full := place(descriptor)) is None:
            return real(descriptor, data, offset)
        watcher.before("write", full)
        done = real(descriptor, data, offset)
        watcher.after(Call("write", full, offset=offset, data=bytes(data)[:done]))
        return done

    return call


def _truncate(
    place: _Below, watcher: Watcher, real: Callable[[Any, int], None]
) -> Callable[[Any, int], None]:
    def call(path: Any, length: int) -> None:
        if (full := place(path)) is None:
            return real(path, length)
        watcher.before("truncate", full)
        real(path, length)
        watcher.after(Call("truncate", full, offset=length))
        return None

    return call


def _fsync(place: _Below, watcher: Watcher, real: Callable[[Any], None]) -> Callable[[Any], None]:
    def call(file: Any) -> None:
        full = place(file if isinstance(file, int) else file.fileno())
        if full is None:
            return real(file)
        watcher.before("fsync", full)
        real(file)
        watcher.after(Call("fsync", full, site=_site()))
        return None

    return call


def _site() -> str:
    """The function of the package that asks for a sync, by file and name."""
    frame = inspect.currentframe()
    while frame := frame.f_back if frame else None:
        code = frame.f_code
        if PACKAGE in code.co_filename and code.co_name not in HELPERS:
            return f"{Path(code.co_filename).name}: {code.co_name}"
    return "unknown"


def lines_of_package() -> tuple[str, ...]:
    """The lines of the package that led to a call, the innermost first."""
    frame, found = inspect.currentframe(), list[str]()
    while frame := frame.f_back if frame else None:
        if PACKAGE in frame.f_code.co_filename and len(found) < LINES:
            found.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
    return tuple(found)


def _looking(
    place: _Below, watcher: Watcher, real: Callable[..., Any], name: str
) -> Callable[..., Any]:
    def call(path: Any = ".", *args: Any, **options: Any) -> Any:
        full = place(path, options.get("dir_fd"))
        if full is not None:
            watcher.before(name, full)
        return real(path, *args, **options)

    return call


def _flock(place: _Below, watcher: Watcher) -> Callable[[Any, int], None]:
    real = fcntl.flock

    def call(file: Any, operation: int) -> None:
        full = place(file if isinstance(file, int) else file.fileno())
        if full is not None:
            watcher.before("flock", full)
        real(file, operation)

    return call


def _opened(place: _Below, watcher: Watcher) -> Callable[..., Any]:
    """`open`, with a raw file of this module."""
    real = io.open

    def call(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        if place(file) is None:
            return real(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = _WatchedFile(
            file,
            mode.replace("b", "").replace("t", ""),
            closefd,
            None if isinstance(file, int) else opener or _plain_opener,
        )
        raw.place, raw.watcher = place, watcher
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        kind = (
            io.BufferedRandom
            if "+" in mode
            else io.BufferedReader
            if "r" in mode
            else io.BufferedWriter
        )
        buffer: Any = kind(raw, size)
        if "b" in mode:
            return buffer
        text = io.TextIOWrapper(buffer, encoding, errors, newline, buffering == 1)
        text.mode = mode
        return text

    return call


def _plain_opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o666)


class _WatchedFile(io.FileIO):
    """A file whose reads and writes are seen."""

    place: _Below
    watcher: Watcher
    refused: BaseException | None = None

    def write(self, data: Any) -> int:
        full, view = self.place(self.fileno()), memoryview(data).cast("B")
        if full is None:
            return super().write(view)
        if self.refused:
            error, self.refused = self.refused, None
            raise error
        try:
            self.watcher.before("write", full)
        except BaseException as error:  # as a kernel does: some bytes, and then the error
            if len(view) < 2:
                raise
            self.refused, view = error, view[: len(view) // 2]
        offset = os.fstat(self.fileno()).st_size if "a" in self.mode else self.tell()
        done = super().write(view)
        self.watcher.after(Call("write", full, offset=offset, data=bytes(view[:done])))
        return done

    def truncate(self, size: int | None = None) -> int:
        full, length = self.place(self.fileno()), self.tell() if size is None else size
        if full is None:
            return super().truncate(length)
        self.watcher.before("truncate", full)
        super().truncate(length)
        self.watcher.after(Call("truncate", full, offset=length))
        return length

    def readinto(self, buffer: Any) -> int:
        self._reading()
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._reading()
        return super().readall()

    def read(self, size: int | None = -1) -> bytes:
        self._reading()
        return super().read(-1 if size is None else size)

    def _reading(self) -> None:
        if (full := self.place(self.fileno())) is not None:
            self.watcher.before("read", full)
