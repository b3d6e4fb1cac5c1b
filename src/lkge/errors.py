"""Every error that a user can cause, in one tree.

LkgeError                 something the user can mend; the message says how
├── DataError             a fact file, archive or dataset is missing, malformed or unsafe
│   └── UnknownName       an entity, relation, dataset or method of that name does not exist
├── SettingsError         a setting is out of range, unknown, or contradicts another
└── RunError              the folder of a run or a living graph cannot be written, read or resumed
    ├── DamagedFile       a file does not have the digest that its manifest promises
    └── StoreLocked       another process is writing to a living graph
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class LkgeError(Exception):
    """The root: catch it to catch all that this package raises on purpose."""


class DataError(LkgeError):
    """A fact file, archive or dataset is missing, malformed or unsafe."""

    def __init__(self, message: str, *, file: Path | str | None = None, line: int | None = None):
        self.file = None if file is None else str(file)
        self.line = line
        place = ":".join(str(part) for part in (self.file, line) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)


class UnknownName(DataError):
    """A name that does not exist; the message lists the nearest spellings that do."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        self.kind = kind
        self.name = name
        self.nearest = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
        hint = f" Did you mean {', '.join(map(repr, self.nearest))}?" if self.nearest else ""
        super().__init__(f"there is no {kind} named {name!r}.{hint}")


class SettingsError(LkgeError):
    """A setting is out of range, unknown, or contradicts another."""


class RunError(LkgeError):
    """The folder of a run or a living graph cannot be written, read or resumed."""


class DamagedFile(RunError):
    """A file does not have the digest that its manifest promises."""


class StoreLocked(RunError):
    """Another process is writing to a living graph; the message names it."""
