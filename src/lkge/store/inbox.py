"""The inbox: batches of facts that are accepted, on the disk, and not learned yet."""

from collections.abc import Iterable, Sequence

from pydantic.dataclasses import dataclass

from lkge.data.files import held, remove
from lkge.data.formats import Triple
from lkge.data.vocabulary import require_entity_name, require_relation_name
from lkge.errors import DamagedFile, DataError, RunError, SettingsError
from lkge.store.edits import Edit
from lkge.store.records import STRICT, StoreConfig, now, read_record, write_record
from lkge.store.versions import INBOX_LOCK, Store


@dataclass(frozen=True, config=STRICT)
class FactBatch:
    """Facts to learn together, by name, and facts that no longer hold.

    A share `valid` of the new facts is held out. `accepted` is UTC to the second. A batch with an
    `edit` has no facts of its own: the edit finds them when it is applied.
    """

    number: int
    added: list[Triple]
    retracted: list[Triple]
    valid: float
    source: str
    accepted: str
    edit: Edit | None = None

    def __post_init__(self) -> None:
        if self.edit is not None and (self.added or self.retracted):
            raise ValueError("a batch has an edit or facts, not both")


def accept(
    store: Store,
    added: Iterable[Triple],
    retracted: Iterable[Triple] = (),
    valid: float = StoreConfig.hold_out_fraction,
    source: str = "",
    edit: Edit | None = None,
) -> FactBatch:
    """Take facts in, or an edit. They are on the disk when this returns, and will be learned.

    Any number of processes and threads may do so at once; the numbers of batches rise by one.
    """
    store.require_writable()
    new, gone = _facts(added), _facts(retracted)
    if not new and not gone and edit is None:
        raise DataError("there is no fact to add or to retract; give at least one")
    if not 0 <= valid < 1:
        raise SettingsError(f"valid = {valid!r} is out of range: it must be from 0 to below 1")
    with held(store.folder / INBOX_LOCK, wait=True):
        batch = FactBatch(_next_number(store), new, gone, float(valid), source, now(), edit)
        path = store.batch_file(batch.number)
        try:
            write_record(path, batch)
        except RunError:  # what cannot be promised to last is not kept at all
            remove(path)
            raise
    return batch


def waiting(store: Store) -> list[FactBatch]:
    """The batches that are still to be learned, in order."""
    last, skipped = store.at_newest(store.manifest).last_batch, store.skipped
    batches = []
    for number in store.batch_numbers():
        try:
            if number > last and number not in skipped:
                batches.append(read_batch(store, number))
        except RunError:
            if store.batch_file(number).exists():  # else it was learned and removed just now
                raise
    return batches


def discard(store: Store, number: int) -> None:
    """Remove a batch that a published version has learned, or that was skipped with a note."""
    remove(store.batch_file(number))


def read_batch(store: Store, number: int) -> FactBatch:
    """A batch that waits; its checksum is verified."""
    path = store.batch_file(number)
    batch = read_record(path, FactBatch)
    if batch.number != number:
        raise DamagedFile(f"{path}: is batch {batch.number}; give it its name back")
    return batch


def _next_number(store: Store) -> int:
    """One more than any batch has had.

    The inbox is looked at first: a batch leaves it after the version that learned it has come. Of
    damaged versions, each may have learned one batch more.
    """
    waits = store.batch_numbers()
    last_version = max(store.versions(), default=0)
    manifest = store.at_newest(store.manifest)
    damaged = max(0, last_version - manifest.version)
    return max(manifest.last_batch + damaged, *waits, *store.skipped, 0) + 1


def _facts(given: Iterable[Sequence[str]]) -> list[Triple]:
    """Facts that can be learned: what would be refused then is refused now."""
    facts = [_triple(fact) for fact in given]
    for name in {name for subject, _, object_ in facts for name in (subject, object_)}:
        require_entity_name(name)
    for name in {relation for _, relation, _ in facts}:
        require_relation_name(name)
    return facts


def _triple(fact: Sequence[str]) -> Triple:
    if len(fact) != 3 or not all(isinstance(name, str) for name in fact):
        raise DataError(f"{fact!r} is not a fact; it must be (subject, relation, object) by name")
    try:
        "".join(fact).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the fact {fact!r} is not valid Unicode: {error.reason}") from error
    subject, relation, object_ = fact
    return subject, relation, object_
