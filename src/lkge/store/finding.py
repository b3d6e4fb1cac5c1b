"""Names of entities and relations by a part of the name or of its label, or by likeness."""

from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import NamedTuple

from lkge.data.names import NameTable
from lkge.store.contradictions import names_damage
from lkge.store.labels import LabelMap
from lkge.store.reader import Reader


class Found(NamedTuple):
    """A name and its label, which may be empty."""

    name: str
    label: str


@names_damage
def find(reader: Reader, text: str, k: int = 10, *, relations: bool = False) -> list[Found]:
    """At most k entities, or relations: first those whose names begin with `text`, then those whose
    names contain it, then those whose labels do. If there is none, those whose names or labels are
    most like it."""
    table = reader.names.relation_table if relations else reader.names.entity_table
    labels = reader.labels
    best = _distinct(_containing(table, labels, text, k), k) or _alike(table, labels, text, k)
    return [Found(name, labels.get(name, "")) for name in table.names(best)]


def prepare(reader: Reader) -> None:
    """Read what a search reads, so that the next one is quick."""
    for relations in (False, True):
        find(reader, "\0", 1, relations=relations)


def _containing(table: NameTable, labels: LabelMap, text: str, k: int) -> Iterator[int]:
    yield from table.starting_with(text, k)
    yield from table.containing(text)
    yield from _numbers(table, labels.containing(text))


def _alike(table: NameTable, labels: LabelMap, text: str, k: int) -> list[int]:
    """The best of names and of labels in turn."""
    theirs = list(_numbers(table, labels.alike(text, k)))
    in_turn = chain.from_iterable(zip_longest(table.alike(text, k), theirs))
    return _distinct((number for number in in_turn if number is not None), k)


def _distinct(numbers: Iterable[int], k: int) -> list[int]:
    """The first k of some numbers, each once; the others are not asked for."""
    found = dict[int, None]()
    for number in numbers:
        if len(found) == k:
            break
        found.setdefault(number)
    return list(found)


def _numbers(table: NameTable, names: Iterable[str]) -> Iterator[int]:
    """The numbers of the names that are in the table."""
    return (number for name in names if (number := table.find(name)) is not None)
