"""The queue of a store: batches that wait to be learned, and batches that were set aside.

A batch that is set aside is kept in the folder `set_aside` under its number, with a note of why. It
does not wait. Restored, it waits again, as the last one, under a new number.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lkge.data.files import as_run_error, is_passing, make_folders, remove, sync_folder
from lkge.errors import RunError
from lkge.store.inbox import FactBatch, accept, read_batch
from lkge.store.records import now, read_record
from lkge.store.skipped import note_skipped
from lkge.store.versions import Store

State = Literal["waiting", "damaged", "set aside"]


@dataclass(frozen=True)
class QueuedBatch:
    """A batch that is not learned.

    facts, retracted   how many; 0 if the file is damaged
    edit       what is changed, if it is an edit
    accepted   UTC to the second
    error      why it was set aside, or what is wrong with its file
    """

    number: int
    state: State
    facts: int = 0
    retracted: int = 0
    edit: str = ""
    source: str = ""
    accepted: str = ""
    error: str = ""

    @property
    def waits(self) -> bool:
        """Whether the next update learns it."""
        return self.state == "waiting"


def queue(store: Store) -> list[QueuedBatch]:
    """All batches that are not learned, by number; those that wait are learned in this order."""
    waiting = (_queued(store, number, store.batch_file(number)) for number in unlearned(store))
    aside = (
        _queued(store, number, store.set_aside_file(number)) for number in store.set_aside_numbers()
    )
    return sorted((batch for batch in (*waiting, *aside) if batch), key=lambda each: each.number)


def unlearned(store: Store) -> list[int]:
    """The numbers of the batches in the inbox that no version has learned, damaged ones too."""
    last, skipped = store.at_newest(store.manifest).last_batch, store.skipped
    return [number for number in store.batch_numbers() if number > last and number not in skipped]


def set_aside(store: Store, number: int, reason: str) -> None:
    """Take a batch out of the inbox, and keep it. Only for who holds the writer's lock."""
    if number not in unlearned(store):
        raise RunError(f"{store.folder}: no batch {number} waits; `lkge queue` lists all")
    source, target = store.batch_file(number), store.set_aside_file(number)
    accepted = _accepted(store, number)
    with as_run_error(target):
        make_folders(target.parent)
        os.replace(source, target)
        sync_folder(target.parent)
        sync_folder(source.parent)
    version = store.newest()
    note_skipped(store.folder, number, version, reason, accepted, failed=True)


def restore(store: Store, number: int) -> FactBatch:
    """Let a batch that was set aside wait again, under a new number. Only for who holds the
    writer's lock."""
    if number not in store.set_aside_numbers():
        raise RunError(f"{store.folder}: no batch {number} is set aside; `lkge queue` lists all")
    path = store.set_aside_file(number)
    old = read_record(path, FactBatch)
    new = accept(store, old.added, old.retracted, old.valid, old.source, old.edit)
    remove(path)
    message = f"restored as batch {new.number}"
    note_skipped(store.folder, number, store.newest(), message, old.accepted)
    return new


def damaged_batches(store: Store) -> dict[int, str]:
    """The batches of the inbox that cannot be read, and why."""
    found = {}
    for number in unlearned(store):
        try:
            read_batch(store, number)
        except RunError as error:
            if is_passing(error, of_disk=True):
                raise
            if store.batch_file(number).exists():
                found[number] = str(error)
    return found


def _queued(store: Store, number: int, path: Path) -> QueuedBatch | None:
    """What is known of a batch; None if it has been learned meanwhile."""
    aside = path == store.set_aside_file(number)
    note = store.skipped.get(number)
    error = note.message if note else ""
    state: State = "set aside" if aside else "waiting"
    try:
        batch = read_record(path, FactBatch)
    except RunError as damage:
        if not os.path.lexists(path):
            return None
        shown: State = state if aside else "damaged"
        accepted = note.accepted if note else ""
        return QueuedBatch(number, shown, accepted=accepted, error=error or str(damage))
    return QueuedBatch(
        number=number,
        state=state,
        facts=len(batch.added),
        retracted=len(batch.retracted),
        edit=str(batch.edit) if batch.edit else "",
        source=batch.source,
        accepted=batch.accepted,
        error=error,
    )


def _accepted(store: Store, number: int) -> str:
    """When a batch was accepted; now, if its file is damaged."""
    try:
        return read_batch(store, number).accepted
    except RunError:
        return now()
