"""The request to learn all known facts at once: a file of the store, so that it outlives the
process that accepted it."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lkge.data.files import as_run_error, write_text_atomically
from lkge.store.records import RELEARN, VersionRecord

REQUEST, MAX_BYTES = "relearn.json", 100


def request(folder: Path, version: int) -> None:
    """Ask for a relearning after a version; durable when this returns."""
    with as_run_error(folder / REQUEST):
        write_text_atomically(folder / REQUEST, json.dumps({"after": version}))


def is_requested(folder: Path, log: Iterable[VersionRecord]) -> bool:
    """Whether a relearning was asked for, and no later version of the log is one. A file that
    cannot be read asks for nothing."""
    try:
        file = os.open(folder / REQUEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            after = json.loads(os.read(file, MAX_BYTES))["after"]
        finally:
            os.close(file)
        return not any(line.kind == RELEARN and line.version > after for line in log)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def withdraw(folder: Path) -> None:
    """Nothing is asked for any more."""
    with suppress(OSError):
        (folder / REQUEST).unlink()
