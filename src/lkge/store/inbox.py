"""The inbox: batches of facts that are accepted, on the disk, and not learned yet."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import PlainSerializer, PlainValidator
from pydantic.dataclasses import dataclass

from lkge.data.fact_list import FactList, Triple, checked_triple
from lkge.data.files import held, remove, with_remedies
from lkge.data.vocabulary import require_entity_name, require_relation_name
from lkge.errors import DamagedFile, DataError, RunError, SettingsError, StoreLocked
from lkge.store.edits import Edit
from lkge.store.records import STRICT, StoreConfig, now, read_record, write_record
from lkge.store.versions import INBOX_LOCK, Store

READABLE = 10_000
"""Up to so many facts are in the file as lists of names."""


def _to_json(facts: FactList) -> Any:
    """Facts for the file of a batch: names, and ids in base64 as little-endian int32, (n, 3). Few
    facts are a list of triples."""
    if len(facts) <= READABLE:
        return [list(fact) for fact in facts]
    ids = base64.b64encode(np.ascontiguousarray(facts.ids, dtype="<i4").tobytes()).decode()
    return {"entities": facts.entities, "relations": facts.relations, "ids": ids}


def _from_json(stored: Any) -> FactList:
    """Inverse of `_to_json`; a ValueError for anything else."""
    if not isinstance(stored, Mapping):
        return _list_of(stored)
    entities, relations = (_names(stored.get(kind)) for kind in ("entities", "relations"))
    data = base64.b64decode(str(stored.get("ids")), validate=True)
    ids = np.frombuffer(data, dtype="<i4").reshape(-1, 3).astype(np.int32)
    if not ((ids >= 0) & (ids < [len(entities), len(relations), len(entities)])).all():
        raise ValueError("a fact has a number without a name")
    return FactList(entities, relations, ids)


def _names(stored: Any) -> list[str]:
    if not isinstance(stored, list) or not all(isinstance(name, str) for name in stored):
        raise ValueError("names must be a list of texts")
    return stored


def _list_of(facts: Any) -> FactList:
    """Facts by name; a ValueError for anything else."""
    if isinstance(facts, FactList):
        return facts
    triples = list(facts) if isinstance(facts, Iterable) else [facts]
    if not all(_is_fact(fact) for fact in triples):
        raise ValueError("a fact must be (subject, relation, object) by name")
    return FactList.of(triples)


def _is_fact(fact: Any) -> bool:
    return (
        isinstance(fact, Sequence)
        and not isinstance(fact, str)
        and len(fact) == 3
        and all(isinstance(name, str) for name in fact)
    )


NamedFacts = Annotated[Sequence[Triple], PlainValidator(_from_json), PlainSerializer(_to_json)]


@dataclass(frozen=True, config=STRICT)
class FactBatch:
    """Facts to learn together, by name, and facts that no longer hold.

    A share `valid` of the new facts is held out. `accepted` is UTC to the second. A batch with an
    `edit` has no facts of its own: the edit finds them when it is applied.
    """

    number: int
    added: NamedFacts
    retracted: NamedFacts
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
    patience: float | None = None,
) -> FactBatch:
    """Take facts in, or an edit. They are on the disk when this returns, and will be learned.

    Any number of processes and threads may do so at once; the numbers of batches rise by one. With
    `patience`, StoreLocked if another holds the lock of the inbox for more than so many seconds.
    """
    store.require_writable()
    new, gone = _facts(added), _facts(retracted)
    if not new and not gone and edit is None:
        raise DataError("there is no fact to add or to retract; give at least one")
    if not 0 <= valid < 1:
        raise SettingsError(f"valid = {valid!r} is out of range: it must be from 0 to below 1")
    with (
        with_remedies(store.folder),
        held(store.folder / INBOX_LOCK, wait=True if patience is None else patience) as alone,
    ):
        if not alone:
            raise StoreLocked(f"{store.folder}: another process holds {INBOX_LOCK}; try again")
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
    aside = store.set_aside_numbers()
    return max(manifest.last_batch + damaged, *waits, *aside, *store.skipped, 0) + 1


def _facts(given: Iterable[Sequence[str]]) -> FactList:
    """Facts that can be learned: what would be refused then is refused now."""
    facts = given if isinstance(given, FactList) else FactList.of(map(checked_triple, given))
    require_names(facts)
    return facts


def require_names(facts: FactList) -> None:
    """Raise DataError if a name cannot be that of an entity or relation."""
    for name in facts.entities:
        require_entity_name(name)
    for name in facts.relations:
        require_relation_name(name)
