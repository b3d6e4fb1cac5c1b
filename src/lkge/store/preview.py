"""A look at facts before they are learned: how they are read, what is new, which names are
doubtful."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lkge.data.documents import UNSAFE
from lkge.data.fact_list import FactList
from lkge.data.named_facts import NamedFacts
from lkge.data.names import NameTable
from lkge.store.inbox import require_names
from lkge.store.reader import Reader
from lkge.store.update_split import ids_of, unknown

SHOWN_FACTS, SHOWN_DOUBTS = 10, 20
MANY_FACTS = 20
"""In a file of so many facts the names of a first fact should be somewhere else."""
CONTROL = re.compile(f"[\x00-\x1f]|{UNSAFE.pattern}")


@dataclass(frozen=True)
class ReadFile:
    """How a file is read: its columns as they are named, none without a header, and which of them,
    by name or number, are subject, relation and object; None if the format has no columns."""

    source: str
    facts: int
    header: tuple[str, ...]
    columns: Mapping[str, str] | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Doubt:
    """A new name that may be a mistake, of an entity or a relation; or a first fact that may be a
    header."""

    kind: str
    name: str
    reason: str


@dataclass(frozen=True)
class Preview:
    """What facts would bring. `sample` has the first ten; `new_facts` is None if the graph keeps no
    known facts. `doubts` has the first twenty of `num_doubts`."""

    files: tuple[ReadFile, ...]
    sample: tuple[tuple[str, str, str], ...]
    facts: int
    new_facts: int | None
    new_entities: int
    new_relations: int
    doubts: tuple[Doubt, ...]
    num_doubts: int


def preview(parts: Sequence[NamedFacts], reader: Reader | None) -> Preview:
    """What the parts bring to the graph of a reader; without one, to an empty graph. What `add`
    would refuse is refused."""
    facts = FactList.joined(parts)
    require_names(facts)
    entities, relations = facts.entities, facts.relations
    new_facts: int | None = len(facts)
    tables = NameTable.of(), NameTable.of()
    if reader is not None:
        tables = reader.names.entity_table, reader.names.relation_table
        entities, relations = unknown(entities, tables[0]), unknown(relations, tables[1])
        known = reader.answers.contains(ids_of(facts, reader.names))
        new_facts = len(facts) - int(known.sum()) if reader.store.options.known else None
    doubts = [
        *(doubt for part in parts for doubt in _unnamed_header(part)),
        *_doubts("entity", entities, tables[0]),
        *_doubts("relation", relations, tables[1]),
    ]
    return Preview(
        files=tuple(map(_read_file, parts)),
        sample=tuple(facts[:SHOWN_FACTS]),
        facts=len(facts),
        new_facts=new_facts,
        new_entities=len(entities),
        new_relations=len(relations),
        doubts=tuple(doubts[:SHOWN_DOUBTS]),
        num_doubts=len(doubts),
    )


def _read_file(part: NamedFacts) -> ReadFile:
    layout = part.layout
    return ReadFile(
        source=part.source,
        facts=len(part),
        header=layout.names if layout else (),
        columns=layout.columns if layout else None,
        warnings=part.warnings,
    )


def _unnamed_header(part: NamedFacts) -> Iterator[Doubt]:
    """A doubt about the first fact of a table without a header, if its three names are nowhere else
    in a file of many facts."""
    if part.layout is None or part.layout.names or len(part) < MANY_FACTS:
        return
    ids = part.encoded.ids
    between, ends = ids[:, 1], ids[:, (0, 2)]
    elsewhere = (between[1:] == between[0]).any() or np.isin(ends[1:], ends[0]).any()
    if not elsewhere:
        yield Doubt("fact", " ".join(part.encoded[0]), "is the first line a header?")


def _doubts(kind: str, names: Iterable[str], table: NameTable) -> Iterator[Doubt]:
    """Doubts about new names, those of one name together."""
    listed = list(names)
    folded: dict[str, str] = {}
    wanted = {name.casefold() for name in listed}
    for name in table if listed else ():
        if (same := name.casefold()) in wanted:
            folded.setdefault(same, name)
    for name in listed:
        twin = folded.setdefault(name.casefold(), name)
        for reason in _reasons(name, twin):
            yield Doubt(kind, name, reason)


def _reasons(name: str, twin: str) -> Iterator[str]:
    if name != name.strip():
        yield "blanks around it"
    if twin != name:
        yield f"differs from {twin!r} in case only"
    if "\N{REPLACEMENT CHARACTER}" in name or ("?" in name and "://" not in name):
        yield "has a `?`; was a letter lost?"
    if CONTROL.search(name):
        yield "has control characters"
