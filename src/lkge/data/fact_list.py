"""Facts by name, dictionary-encoded: each name once, and facts as numbers of names.

A list of two million triples of texts takes a gigabyte and a loop over all of them at every step.
Here a step is a loop over the distinct names, and array operations for the facts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt

from lkge.errors import DataError

Triple = tuple[str, str, str]
"""A fact by name: subject, relation, object."""

Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class Column(Sequence[str]):
    """Names of n facts as numbers (n,) of distinct names; read-only."""

    def __init__(self, names: Sequence[str], numbers: Ids) -> None:
        self.names, self.numbers = names, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self.names[number] for number in self.numbers[place].tolist()]
        return self.names[int(self.numbers[place])]

    def __iter__(self) -> Iterator[str]:
        return map(self.names.__getitem__, self.numbers.tolist())


@dataclass(frozen=True, eq=False)
class FactList(Sequence[Triple]):
    """n facts by name; equal to a list of the same triples.

    entities, relations   distinct names, in the order in which the facts name them, a subject
                          before its object
    ids                   (n, 3) int32: subject, relation and object as places in these lists
    """

    entities: Sequence[str]
    relations: Sequence[str]
    ids: Ids

    @classmethod
    def of(cls, facts: Iterable[Sequence[str]]) -> Self:
        """Facts in any form; those that are encoded already, such as those of a file, are not
        copied."""
        facts = getattr(facts, "encoded", facts)
        if isinstance(facts, cls):
            return facts
        columns = list(zip(*facts, strict=True)) or [(), (), ()]
        return cls.of_columns(*columns)

    @classmethod
    def of_columns(
        cls, subjects: Iterable[str], relations: Iterable[str], objects: Iterable[str]
    ) -> Self:
        """Facts from parallel columns."""
        ends: dict[str, int] = {}
        kinds: dict[str, int] = {}
        named = chain.from_iterable(zip(subjects, objects, strict=True))
        numbers = [ends.setdefault(name, len(ends)) for name in named]
        between = [kinds.setdefault(name, len(kinds)) for name in relations]
        both = np.array(numbers, dtype=np.int32).reshape(-1, 2)
        ids = np.stack([both[:, 0], np.array(between, dtype=np.int32), both[:, 1]], axis=1)
        return cls(list(ends), list(kinds), ids)

    @classmethod
    def joined(cls, parts: Iterable[Iterable[Sequence[str]]]) -> Self:
        """The facts of all parts in order, each once."""
        entities: dict[str, int] = {}
        relations: dict[str, int] = {}
        found = [np.empty((0, 3), dtype=np.int32)]
        for part in map(cls.of, parts):
            entity, relation = (
                _numbers(part.entities, entities),
                _numbers(part.relations, relations),
            )
            found.append(part.numbered(entity, relation))
        return cls(list(entities), list(relations), np.concatenate(found)).distinct()

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Triple: ...
    @overload
    def __getitem__(self, place: slice) -> "FactList": ...
    def __getitem__(self, place: int | slice) -> "Triple | FactList":
        if isinstance(place, slice):
            return self.at(np.arange(len(self))[place])
        subject, relation, object_ = self.ids[place].tolist()
        return self.entities[subject], self.relations[relation], self.entities[object_]

    def __iter__(self) -> Iterator[Triple]:
        return zip(*self.columns, strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self)) if len(self) <= 10 else f"FactList of {len(self)} facts"

    @property
    def columns(self) -> tuple[Column, Column, Column]:
        """The names of subjects, relations and objects."""
        names = (self.entities, self.relations, self.entities)
        first, second, third = map(Column, names, self.ids.T)
        return first, second, third

    def numbered(self, entities: npt.ArrayLike, relations: npt.ArrayLike) -> Ids:
        """The facts (n, 3) with other numbers, those of each of the names."""
        entity, relation = (np.asarray(each, dtype=np.int32) for each in (entities, relations))
        subjects, between, objects = self.ids.T
        return np.stack([entity[subjects], relation[between], entity[objects]], axis=1)

    def at(self, places: npt.NDArray[Any]) -> Self:
        """The facts at some places; the names stay, also those that no fact has now."""
        return type(self)(self.entities, self.relations, self.ids[places])

    def is_first(self) -> Mask:
        """For each fact whether it stands nowhere before, (n,)."""
        return is_first(self.ids)

    def distinct(self) -> Self:
        """Each fact once, where it stands first."""
        first = self.is_first()
        return self if first.all() else self.at(first)


def is_first(rows: npt.NDArray[np.integer]) -> Mask:
    """For each of n rows (n, 3) of numbers from 0 whether no equal row stands before it, (n,)."""
    first = np.ones(len(rows), dtype=np.bool_)
    if not len(rows):
        return first
    sizes = [int(size) + 1 for size in rows.max(axis=0)]
    if sizes[0] * sizes[1] * sizes[2] < 1 << 63:
        keys = (rows[:, 0].astype(np.int64) * sizes[1] + rows[:, 1]) * sizes[2] + rows[:, 2]
        order = np.argsort(keys, kind="stable")
        repeats = keys[order][1:] == keys[order][:-1]
    else:
        order = np.lexsort(rows.T)
        repeats = (rows[order][1:] == rows[order][:-1]).all(axis=1)
    first[order[1:][repeats]] = False
    return first


def in_order_of_appearance(
    subjects: Ids, objects: Ids, names: Sequence[str]
) -> tuple[Ids, Ids, list[str]]:
    """Numbers (n,) of subjects and of objects in `names` become numbers in order of appearance;
    with the names in this order. Every name is used."""
    places = np.arange(len(subjects), dtype=np.int64)[::-1]  # the first place is written last
    as_subject, as_object = np.full((2, len(names)), 2 * len(subjects))
    as_subject[subjects[::-1]] = 2 * places
    as_object[objects[::-1]] = 2 * places + 1
    order = np.argsort(np.minimum(as_subject, as_object))
    number = np.empty(len(names), dtype=np.int32)
    number[order] = np.arange(len(names), dtype=np.int32)
    return number[subjects], number[objects], [names[place] for place in order.tolist()]


def checked_triple(fact: Sequence[str]) -> Triple:
    """A fact by name; a DataError for anything else."""
    if len(fact) != 3 or not all(isinstance(name, str) for name in fact):
        raise DataError(f"{fact!r} is not a fact; it must be (subject, relation, object) by name")
    try:
        "".join(fact).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the fact {fact!r} is not valid Unicode: {error.reason}") from error
    subject, relation, object_ = fact
    return subject, relation, object_


def _numbers(names: Sequence[str], known: dict[str, int]) -> list[int]:
    """The number of each name in `known`, to which new names are added."""
    return [known.setdefault(name, len(known)) for name in names]


def _same(mine: Triple, other: object) -> bool:
    return isinstance(other, (tuple, list)) and mine == tuple(other)
