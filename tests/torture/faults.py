"""Every call of an operation to the file system fails once: the graph must be sound and go on.

python -m tests.torture faults
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from tests.torture.disk import write_tree
from tests.torture.filesystem import Watcher, lines_of_package, watched
from tests.torture.judging import Judge, alike
from tests.torture.operations import Expected, Operation, beginning, place_in

from lkge.errors import LkgeError

CHANGING = ("create", "write", "fsync", "mkdir", "rename", "link", "truncate")
ON_DESCRIPTORS = ("write", "fsync", "read", "flock", "truncate")
"""Calls whose errors have no path."""
FAULTS = {
    errno.ENOSPC: CHANGING,
    errno.EIO: ("open", "read", "list", "stat", "unlink", "rmdir", *CHANGING),
    errno.EINTR: ("create", "open", "read", "flock", "write", "fsync"),
    errno.EMFILE: ("create", "open", "list"),
    errno.ENOLCK: ("flock",),
}
"""The calls that an error may come from."""


class Counting(Watcher):
    """Keeps all calls, in order: their names and the lines of the package that they come from."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []

    def before(self, name: str, path: str) -> None:
        self.calls.append((name, lines_of_package()))


class Failing(Watcher):
    """Call number `number` fails, the others do not."""

    def __init__(self, number: int, error: int) -> None:
        self.number, self.error = number, error
        self.call = ""

    def before(self, name: str, path: str) -> None:
        self.number -= 1
        if self.number == -1:
            self.call = f"{name} {path}"
            names = () if name in ON_DESCRIPTORS else (path,)
            raise OSError(self.error, os.strerror(self.error), *names)


class PowerCut(BaseException):
    """The end of a process that has no time to clean up."""


class Dead(Failing):
    """That call and all later ones fail: the process is as if killed there."""

    def __init__(self, number: int) -> None:
        super().__init__(number, 0)

    def before(self, name: str, path: str) -> None:
        self.number -= 1
        if self.number < 0:
            self.call = self.call or f"{name} {path}"
            raise PowerCut


@dataclass(frozen=True)
class Fault:
    """Which call fails, and how."""

    number: int
    name: str
    error: int

    def __str__(self) -> str:
        return f"{errno.errorcode[self.error]} from call {self.number}, {self.name}"


@dataclass
class Faulty:
    """An operation, all of whose calls may fail."""

    operation: Operation
    faults: list[Fault]
    """Those from different places in the code come first."""
    places: int
    """How many these are."""
    judge: Judge
    scratch: Path

    @classmethod
    def of(cls, operation: Operation, scratch: Path) -> Faulty:
        """Do it once without a fault, and count its calls."""
        expected, counting = Expected.of(operation, scratch / "expected"), Counting()
        root = write_tree(beginning(operation.begin).tree, scratch / "root")
        with alike(), watched(root, counting):
            operation.run(place_in(root), lambda: None)
        faults, again, seen = [], [], set()
        for number, (name, lines) in enumerate(counting.calls):
            for error in (error for error, names in FAULTS.items() if name in names):
                fault = Fault(number, name, error)
                (again if (error, name, lines) in seen else faults).append(fault)
                seen.add((error, name, lines))
        return cls(
            operation, [*faults, *again], len(faults), Judge(operation, expected), scratch / "work"
        )

    def problem(self, fault: Fault) -> str | None:
        """What is wrong when this fault happens."""
        root = write_tree(beginning(self.operation.begin).tree, self.scratch)
        place, watcher, acknowledged = place_in(root), Failing(fault.number, fault.error), []
        try:
            with alike(), watched(root, watcher):
                self.operation.run(place, lambda: acknowledged.append(True))
            acknowledged.append(True)
        except LkgeError as error:
            if complaint := _unhelpful(str(error), root):
                return f"{fault} ({watcher.call}): {complaint}"
        except Exception as error:
            return f"{fault} ({watcher.call}): {type(error).__name__}: {error}"
        problem = self.judge.problem(place, bool(acknowledged))
        return problem and f"{fault} ({watcher.call}): {problem}"


def _unhelpful(message: str, root: Path) -> str | None:
    """What is wrong with the message of an error."""
    if "[Errno" in message or ".part" in message:
        return f"an error of the system or a temporary name is shown: {message}"
    if str(root) not in message:
        return f"the error names no path: {message}"
    if ";" not in message:
        return f"the error names no remedy: {message}"
    return None
