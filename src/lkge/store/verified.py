"""What was verified: the last version whose files were all read and found as they were written.

Its files and the batches that came after it stay, so that damage that is found later costs no fact.
A verification that is stopped goes on with the files that it has not read.
"""

from pathlib import Path

from pydantic.dataclasses import dataclass

from lkge.errors import RunError
from lkge.store.records import STRICT, read_record, write_record

VERIFIED = "verified.json"


@dataclass(frozen=True, config=STRICT)
class Verified:
    """The last version that was verified as a whole, and the files that a verification that has
    not ended yet found sound."""

    version: int | None = None
    files: tuple[str, ...] = ()


def verified(folder: Path) -> Verified:
    """What was verified in the store in `folder`; nothing if that cannot be read: then all is
    verified again."""
    try:
        return _read(folder)
    except RunError:
        return Verified()


def last_verified(folder: Path) -> int | None:
    """The last version that was verified as a whole; RunError if that cannot be read."""
    return _read(folder).version


def _read(folder: Path) -> Verified:
    path = folder / VERIFIED
    return read_record(path, Verified) if path.exists() else Verified()


def note_verified(folder: Path, version: int | None, files: tuple[str, ...] = ()) -> None:
    """Remember what was verified."""
    if (found := Verified(version, files)) != verified(folder):
        write_record(folder / VERIFIED, found)
