"""Batches that led to no version: a durable note of each, so that none is learned again.

A note is written before its batch leaves the inbox. A crash between the two leaves a batch with a
note: it does not wait, and the next writer removes it.
"""

from pathlib import Path

from pydantic.dataclasses import dataclass

from lkge.store.records import (
    FAILED,
    NOTHING,
    STRICT,
    Count,
    VersionRecord,
    now,
    read_record,
    write_record,
)

SKIPPED = "skipped.json"
MAX_NOTES = 1000
"""The oldest notes beyond this number are dropped; their batches left the inbox long ago."""


@dataclass(frozen=True, config=STRICT)
class SkippedBatch:
    """A batch without a version.

    version   the version that was current
    message   why there is no version
    failed    whether the batch could not be applied; otherwise it had nothing new
    accepted, skipped   UTC to the second
    """

    number: Count
    version: Count
    message: str
    failed: bool
    accepted: str
    skipped: str


@dataclass(frozen=True, config=STRICT)
class SkippedBatches:
    """The file of the notes, by the order in which they were written."""

    batches: tuple[SkippedBatch, ...] = ()


def skipped_batches(folder: Path) -> dict[int, SkippedBatch]:
    """The notes of the store in `folder`, by the number of the batch."""
    path = folder / SKIPPED
    notes = read_record(path, SkippedBatches).batches if path.exists() else ()
    return {note.number: note for note in notes}


def note_skipped(
    folder: Path, number: int, version: int, message: str, accepted: str, *, failed: bool = False
) -> SkippedBatch:
    """Write a note; it is on the disk when this returns. Only for who holds the writer's lock."""
    note = SkippedBatch(number, version, message, failed, accepted, now())
    earlier = skipped_batches(folder)
    earlier.pop(number, None)
    kept = (*earlier.values(), note)[-MAX_NOTES:]
    write_record(folder / SKIPPED, SkippedBatches(kept))
    return note


def nothing_new(added: int, retracted: int, known: bool) -> str:
    """Why a batch with so many facts, each in no need of learning, leads to no version. `known`:
    whether the graph keeps known facts."""
    parts = []
    if added:
        parts.append("the fact is known" if added == 1 else f"all {added:,} facts are known")
    if retracted and not known:
        parts.append("nothing can be retracted, because this graph keeps no known facts")
    elif retracted == 1:
        parts.append("the retracted fact is not known")
    elif retracted:
        parts.append(f"none of the {retracted:,} retracted facts is known")
    return f"nothing new: {', and '.join(parts)}"


def record_of_nothing(
    current: VersionRecord, number: int, source: str, message: str, *, failed: bool = False
) -> VersionRecord:
    """What a learner returns for a skipped batch: a record with the totals of the current version,
    which is in no log."""
    return VersionRecord(
        version=current.version,
        kind=FAILED if failed else NOTHING,
        created=now(),
        entities=current.entities,
        relations=current.relations,
        known_facts=current.known_facts,
        removed=current.removed,
        warnings=(message,),
        source=source,
        batch=number,
    )
