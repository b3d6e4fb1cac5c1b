"""Disks that fail: full ones, and ones whose power is cut."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class FullDisk:
    """Lets a number of calls through, then has no space left, once."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.failed = False

    def fail_in_turn(self) -> None:
        self.left -= 1
        if self.left < 0 and not self.failed:
            self.failed = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def opened(self, descriptor: int) -> None:
        """A file was opened to be written."""

    def synced(self, descriptor: int) -> None:
        """A file or folder is on the disk."""

    def cut(self) -> None:
        """The operations are over."""

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def limited(*args: Any, **options: Any) -> Any:
            self.fail_in_turn()
            return function(*args, **options)

        return limited

    def syncing(self, fsync: Callable[[int], None]) -> Callable[[int], None]:
        def limited(descriptor: int) -> None:
            self.fail_in_turn()
            fsync(descriptor)
            self.synced(descriptor)

        return limited

    def halfway(self, open_path: Callable[..., Any]) -> Callable[..., Any]:
        """Files whose `write` fails with half the bytes written."""

        def opened(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
            file = open_path(path, mode, *args, **options)
            if "x" not in mode and "w" not in mode:
                return file
            self.opened(file.fileno())
            return HalfWritten(file, self)

        return opened


class PowerCut(BaseException):
    """The end of a process that has no time to clean up."""


class DeadDisk(FullDisk):
    """Lets a number of calls through, then none any more; files that were not synced are lost."""

    def __init__(self, calls: int) -> None:
        super().__init__(calls)
        self.unsynced: dict[int, int] = {}

    def fail_in_turn(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.failed = True
            raise PowerCut

    def opened(self, descriptor: int) -> None:
        self.unsynced[os.fstat(descriptor).st_ino] = os.dup(descriptor)

    def synced(self, descriptor: int) -> None:
        mine = self.unsynced.pop(os.fstat(descriptor).st_ino, None)
        if mine is not None:
            os.close(mine)

    def cut(self) -> None:
        """What was on its way is gone."""
        for descriptor in self.unsynced.values():
            os.ftruncate(descriptor, 0)
            os.close(descriptor)


class HalfWritten:
    def __init__(self, file: Any, disk: FullDisk) -> None:
        self.file, self.disk = file, disk

    def __enter__(self) -> HalfWritten:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, data: bytes) -> int:
        self.file.write(data[: len(data) // 2])
        self.disk.fail_in_turn()
        return len(data) // 2 + int(self.file.write(data[len(data) // 2 :]))


OPERATIONS = ("write", "fsync", "replace", "mkdir", "unlink", "rmdir")


@contextmanager
def failing(disk: FullDisk, *operations: str) -> Iterator[None]:
    """Everything of these operations goes through `disk`."""
    with pytest.MonkeyPatch.context() as patch:
        for operation in operations:
            if operation == "write":
                patch.setattr(Path, "open", disk.halfway(Path.open))
            elif operation == "fsync":
                patch.setattr(os, "fsync", disk.syncing(os.fsync))
            else:
                patch.setattr(os, operation, disk.before(getattr(os, operation)))
        try:
            yield
        finally:
            disk.cut()
