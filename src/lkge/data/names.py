"""Names as arrays that may lie in a file: found by binary search, never all decoded to ask."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, pairwise, takewhile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lkge.data.columns import require_fit, stored_column
from lkge.data.spelling import SortKey, likely_spellings, nearby_spellings, sort_key
from lkge.data.vocabulary import (
    INVERSE,
    marked,
    require_entity_name,
    require_id,
    require_relation_name,
)
from lkge.errors import DamagedFile, DataError, UnknownName

_SIEVED = 50_000
"""Among at most so many names, spelling hints come from looking at all of them."""

_SEARCH_COST = 32
"""A binary search takes about as long as decoding so many names in one go."""


@dataclass(frozen=True)
class NameTable:
    """n distinct names by number and in dictionary order, b bytes in all.

    text   (b,) uint8: the names in UTF-8, one after another, by number
    ends   (n,) int64: where each name ends in `text`
    order  (n,) int32: the numbers, sorted by (casefolded name, name)
    """

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    order: NDArray[np.int32]

    @classmethod
    def of(cls, names: Iterable[str] = ()) -> Self:
        """Distinct names, numbered as they come."""
        listed = list(names)
        keys = list(map(sort_key, listed))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        _require_distinct(listed[number] for number in order)
        text, ends = _encoded(listed)
        return cls(text, ends, np.array(order, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[str]:
        """All names by number, decoded."""
        text = self.text.tobytes()
        for start, end in pairwise(chain((0,), self.ends.tolist())):
            yield _decoded(text[start:end])

    def name(self, number: int) -> str:
        """The name of a number from 0 to below n."""
        start = self.ends[number - 1] if number else 0
        return _decoded(self.text[start : self.ends[number]].tobytes())

    def names(self, numbers: Iterable[int]) -> list[str]:
        """The names of many numbers."""
        return [self.name(number) for number in numbers]

    def find(self, name: str) -> int | None:
        """The number of `name`, after O(log n) decoded names."""
        number = self._search([name])[0]
        return None if number < 0 else number

    def find_all(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The number of each of k names, -1 where it is unknown; shape (k,)."""
        if self._are_many(names):
            numbers = {name: number for number, name in enumerate(self)}
            found = [numbers.get(name, -1) for name in names]
        else:
            found = self._search(names)
        return np.array(found, dtype=np.int64)

    def starting_with(self, prefix: str, limit: int | None = None) -> list[int]:
        """The numbers of the first names that begin with `prefix` in any case, in order."""
        folded = prefix.casefold()
        dictionary = _Lookup.of(self)
        places = range(bisect_left(dictionary, (folded, "")), len(self))
        fitting = takewhile(lambda place: dictionary[place][0].startswith(folded), places)
        return [int(self.order[place]) for place in islice(fitting, limit)]

    def appended(self, names: Sequence[str]) -> Self:
        """This table and k new distinct names behind it: O(k log n) and a copy of the arrays."""
        if self._are_many(names):
            return type(self).of(chain(self, names))
        _require_new(names, self.find_all(names))
        dictionary, added = _Lookup.of(self), self.of(names)
        places = [bisect_left(dictionary, sort_key(names[number])) for number in added.order]
        return type(self)(
            np.concatenate([self.text, added.text]),
            np.concatenate([self.ends, added.ends + len(self.text)]),
            np.insert(self.order, places, added.order + np.int32(len(self))),
        )

    def near(self, name: str) -> list[str]:
        """Names that `name` may have meant; the work is bounded however many there are."""
        if len(self) <= _SIEVED:
            return likely_spellings(name, self)
        return nearby_spellings(name, _Lookup.of(self))

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays by name, to be stored: `prefix.text`, `prefix.ends`, `prefix.order`."""
        return {
            f"{prefix}.text": self.text,
            f"{prefix}.ends": self.ends,
            f"{prefix}.order": self.order,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        """What `arrays` gave; only sizes are checked, so that a mapped file is not read."""
        text = stored_column(arrays, f"{prefix}.text", np.uint8)
        ends = stored_column(arrays, f"{prefix}.ends", np.int64)
        order = stored_column(arrays, f"{prefix}.order", np.int32)
        require_fit(len(order) == len(ends), f"{len(ends)} {prefix} names, {len(order)} in order")
        last = int(ends[-1]) if len(ends) else 0
        require_fit(last == len(text), f"{prefix} names end at {last} in {len(text)} bytes")
        return cls(text, ends, order)

    def _are_many(self, names: Sequence[str]) -> bool:
        return len(names) * _SEARCH_COST >= len(self)

    def _search(self, names: Iterable[str]) -> list[int]:
        """The number of each name by binary search, -1 where it is unknown."""
        dictionary = _Lookup.of(self)
        found = []
        for key in map(sort_key, names):
            place = bisect_left(dictionary, key)
            known = place < len(self) and dictionary[place] == key
            found.append(int(self.order[place]) if known else -1)
        return found


@dataclass(frozen=True)
class _Lookup:
    """The sort keys of a table in order, decoded when they are asked for the first time."""

    table: NameTable
    key_at: Callable[[int], SortKey]

    @classmethod
    def of(cls, table: NameTable) -> Self:
        return cls(table, cache(lambda place: sort_key(table.name(int(table.order[place])))))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, place: int) -> SortKey:
        return self.key_at(place)


@dataclass(frozen=True)
class MappedNames:
    """`Names` from two tables; relation number k of its table has the ids 2k and 2k + 1."""

    entity_table: NameTable
    relation_table: NameTable

    @classmethod
    def of(cls, entities: Iterable[str] = (), relations: Iterable[str] = ()) -> Self:
        """Distinct names, numbered as they come."""
        return cls(NameTable.of(), NameTable.of()).appended(list(entities), list(relations))

    @property
    def num_entities(self) -> int:
        """See `Names`."""
        return len(self.entity_table)

    @property
    def num_relations(self) -> int:
        """See `Names`."""
        return len(self.relation_table)

    def entity_id(self, name: str) -> int:
        """See `Names`."""
        number = self.entity_table.find(name)
        if number is None:
            raise UnknownName("entity", name, self.entity_table.near(name))
        return number

    def relation_id(self, name: str) -> int:
        """See `Names`."""
        forward = name.removesuffix(INVERSE)
        number = self.relation_table.find(forward)
        if number is None:
            raise UnknownName("relation", name, self.relation_table.near(forward))
        return 2 * number + (forward != name)

    def entity_name(self, entity: int) -> str:
        """See `Names`."""
        require_id(entity, self.num_entities, "entity")
        return self.entity_table.name(entity)

    def relation_name(self, relation: int) -> str:
        """See `Names`."""
        require_id(relation, 2 * self.num_relations, "relation")
        return marked(self.relation_table.name(relation // 2), relation)

    def appended(self, entities: Sequence[str] = (), relations: Sequence[str] = ()) -> Self:
        """These and new distinct names behind them; old ids stay."""
        for name in entities:
            require_entity_name(name)
        for name in relations:
            require_relation_name(name)
        return type(self)(
            self.entity_table.appended(entities), self.relation_table.appended(relations)
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of both tables by name, to be stored."""
        return self.entity_table.arrays("entity") | self.relation_table.arrays("relation")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """What `arrays` gave; only sizes are checked."""
        return cls(
            NameTable.from_arrays(arrays, "entity"), NameTable.from_arrays(arrays, "relation")
        )


def _encoded(names: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The text (b,) of n names and where each ends (n,)."""
    try:
        pieces = [name.encode() for name in names]
    except UnicodeEncodeError as error:
        raise DataError(f"the name {error.object!r} is not valid Unicode; rename it") from error
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return np.frombuffer(b"".join(pieces), dtype=np.uint8), ends


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(f"a stored name is damaged: {error}; restore the file") from error


def _require_distinct(names: Iterable[str]) -> None:
    """Refuse a name that stands twice among sorted names."""
    for name, following in pairwise(names):
        if name == following:
            raise DataError(f"the name {name!r} is given twice; leave the second out")


def _require_new(names: Sequence[str], found: NDArray[np.int64]) -> None:
    """Refuse names of which one was found."""
    known = np.flatnonzero(found >= 0)
    if len(known):
        raise DataError(f"the name {names[known[0]]!r} exists already; leave it out")
