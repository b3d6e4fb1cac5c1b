"""How an edit changes a version: new names, facts to retract and facts to learn.

A removed entity keeps its id and its row, so that ids never change. It loses its name: no query can
name it. Answers, maps, exports and evaluation candidates leave it out. A later fact with the old
name makes a new entity with a new row.
"""

import dataclasses
import math
from functools import partial

import numpy as np

from lkge.data.formats import Triple
from lkge.data.names import MappedNames
from lkge.data.snapshots import Facts
from lkge.errors import DataError, SettingsError
from lkge.provenance import provenance
from lkge.store import records, versions
from lkge.store.composed import changed_names
from lkge.store.content import Content
from lkge.store.edits import MERGE, REMOVE, RENAME, RENAME_RELATION, Edit
from lkge.store.inbox import FactBatch
from lkge.store.reader import Reader
from lkge.store.update_split import UpdateSplit, split_batch


@dataclasses.dataclass(frozen=True)
class EditedGraph:
    """The names after an edit; the facts (k, 3) that no longer hold; new facts by name."""

    names: MappedNames
    retracted: Facts
    added: list[Triple]


def require_possible(edit: Edit, reader: Reader) -> None:
    """A DataError or SettingsError that says why an edit cannot be applied to a version."""
    names = reader.names
    if edit.action == RENAME_RELATION:
        if names.relation_id(edit.name) % 2:
            raise DataError(f"{edit.name!r} is an inverse; rename the relation itself")
        _require_free("relation", edit.to, names.relation_table.find(edit.to))
        return
    names.entity_id(edit.name)
    if edit.action == RENAME:
        _require_free("entity", edit.to, names.entity_table.find(edit.to))
    if edit.action == MERGE:
        if not reader.store.options.known:
            raise SettingsError("a merge needs the known facts, which this graph does not keep")
        names.entity_id(edit.to)


def applied(edit: Edit, reader: Reader) -> EditedGraph:
    """The edit on a version."""
    require_possible(edit, reader)
    names, nothing = reader.names, np.empty((0, 3), dtype=np.int32)
    match edit.action:
        case "rename":
            renamed = names.with_entity_name(names.entity_id(edit.name), edit.to)
            return EditedGraph(renamed, nothing, [])
        case "rename_relation":
            renamed = names.with_relation_name(names.relation_id(edit.name), edit.to)
            return EditedGraph(renamed, nothing, [])
    entity = names.entity_id(edit.name)
    facts = facts_of(reader, entity)
    moved = [] if edit.action == REMOVE else _moved(reader, facts, entity, edit.to)
    return EditedGraph(names.without_entity(entity), facts, moved)


def facts_of(reader: Reader, entity: int) -> Facts:
    """The known facts (k, 3) of an entity as subject or object, and its hold-out facts, which a
    graph without known facts has too; each once, without inverses."""
    around, _ = reader.answers.around(entity)
    inverse = around[:, 1] % 2 == 1
    around[inverse] = around[inverse][:, ::-1]
    around[inverse, 1] ^= 1
    held = reader.hold_out.facts
    named = (held[:, (0, 2)] == entity).any(axis=1)
    return np.unique(np.concatenate([around, held[named]]), axis=0)


def split_edit(
    batch: FactBatch,
    edit: Edit,
    index: int,
    reader: Reader,
    generator: np.random.Generator,
    min_validation_facts: int,
) -> UpdateSplit:
    """What a batch with an edit leads to, as the split of an update."""
    edited = applied(edit, reader)
    split = split_batch(
        dataclasses.replace(batch, added=edited.added, edit=None),
        index,
        reader.names,
        reader.answers,
        generator,
        min_validation_facts,
    )
    return dataclasses.replace(split, names=edited.names, retracted=edited.retracted)


def version_with_names(
    reader: Reader, batch: FactBatch, names: MappedNames
) -> tuple[dict[str, Content], records.Manifest]:
    """The content and the manifest of the next version, where an edit changes names only: no fact
    comes or goes, nothing is trained, and the other files stay."""
    record = dataclasses.replace(
        reader.record,
        version=reader.version + 1,
        kind=records.EDIT,
        created=batch.accepted,
        facts=0,
        retracted=0,
        new_entities=0,
        new_relations=0,
        removed=len(names.removed),
        mrr_new=math.nan,
        mrr_old_before=math.nan,
        last_update=records.Comparison(),
        touched_facts=records.Comparison(),
        untouched_facts=records.Comparison(),
        drift=0.0,
        touched=0,
        epochs=0,
        seconds=0.0,
        warnings=(),
        source=batch.source,
        batch=batch.number,
    )
    manifest = reader.manifest.next(record, last_batch=batch.number, provenance=provenance())
    verify = partial(reader.verify, versions.NAMES)
    return {versions.NAMES: changed_names(reader.names, names, verify)}, manifest


def _moved(reader: Reader, facts: Facts, entity: int, to: str) -> list[Triple]:
    """Facts by name with `to` in place of an entity; those that are known are left out."""
    names = reader.names
    into = names.entity_id(to)
    moved = facts.copy()
    moved[:, (0, 2)] = np.where(facts[:, (0, 2)] == entity, into, facts[:, (0, 2)])
    moved = np.unique(moved, axis=0)
    return [
        (names.entity_name(s), names.relation_name(r), names.entity_name(o))
        for s, r, o in moved[~reader.answers.contains(moved)].tolist()
    ]


def _require_free(kind: str, name: str, found: int | None) -> None:
    if found is not None:
        hint = "; `merge` makes one of two entities" if kind == "entity" else ""
        raise DataError(f"the {kind} name {name!r} is in use; choose another name{hint}")
