"""The request to learn all known facts at once: a file of the store, so that it outlives the
process that accepted it."""

from contextlib import suppress
from pathlib import Path

from pydantic.dataclasses import dataclass

from lkge.errors import RunError
from lkge.store.reader import Reader
from lkge.store.records import RELEARN, STRICT, Count, read_record, write_record
from lkge.store.versions import RELEARN_REQUEST


@dataclass(frozen=True, config=STRICT)
class RelearnRequest:
    """A relearning is to follow the version `after`."""

    after: Count


def request(folder: Path, version: int) -> None:
    """Ask for a relearning after a version; durable when this returns."""
    write_record(folder / RELEARN_REQUEST, RelearnRequest(version))


def is_requested(reader: Reader) -> bool:
    """Whether a relearning was asked for, and no later version of the log is one. A file that
    cannot be read asks for nothing."""
    try:
        after = read_record(reader.store.folder / RELEARN_REQUEST, RelearnRequest).after
        return not any(line.kind == RELEARN for line in reader.log[after + 1 :])
    except (OSError, RunError):
        return False


def withdraw(folder: Path) -> None:
    """Nothing is asked for any more."""
    with suppress(OSError):
        (folder / RELEARN_REQUEST).unlink()
