"""Names in arrays that can be memory-mapped: a name is found by binary search."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice, pairwise, takewhile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lkge.data.name_search import Texts
from lkge.data.vocabulary import Names, require_entity_name, require_relation_name
from lkge.errors import MAX_COMPARED, DamagedFile, DataError, most_similar

MAX_COMPARED_NAMES, MAX_COMPARED_BYTES = 100_000, 2_500_000
"""In a table with at most so many names and bytes an unknown name is compared with all names."""

_MANY_NAMES = 50_000
"""From so many names on they are sorted by pyarrow, which takes a tenth of a second to load."""

_NEIGHBOURS = 5_000
"""In a larger table it is compared with so many names on either side in sorted order."""

_SEARCH_COST = 32
"""A binary search takes about as long as decoding so many names at once."""


@dataclass(frozen=True)
class NameTable:
    """n numbers 0 … n - 1 with distinct names, b bytes in total. A number whose name was removed
    has the empty name, which is never found and can be there more than once; r of n are removed.

    text   (b,) uint8: the names in UTF-8, concatenated in order of their numbers
    ends   (n,) int64: the end of each name in `text`
    order  (n - r,) int32: the numbers that are not removed, sorted by the key
           (casefolded name, name) of their names
    """

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    order: NDArray[np.int32]

    @classmethod
    def of(cls, names: Iterable[str] = ()) -> Self:
        """A table of distinct names, numbered in the given order; an empty one is removed."""
        listed = list(names)
        text, ends = encoded(listed)
        order = (_sorted_by_columns if len(listed) >= _MANY_NAMES else _sorted)(listed)
        if len(set(listed)) < len(listed):
            for number, following in pairwise(order.tolist()):
                if listed[number] == listed[following]:
                    name = listed[number]
                    raise DataError(f"the name {name!r} is given twice; leave the second out")
        return cls(text, ends, order)

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def removed(self) -> NDArray[np.int64]:
        """The numbers whose names were removed, ascending, (r,); nothing is read if r is zero."""
        if len(self.order) == len(self.ends):
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(np.diff(self.ends, prepend=0) == 0)

    def __iter__(self) -> Iterator[str]:
        """All names in order of their numbers."""
        text = self.text.tobytes()
        for start, end in self._spans():
            yield _decoded(text[start:end])

    def name(self, number: int) -> str:
        """The name of a number from 0 to below n."""
        start = self.ends[number - 1] if number else 0
        return _decoded(self.text[start : self.ends[number]].tobytes())

    def names(self, numbers: Iterable[int]) -> list[str]:
        """The names of many numbers."""
        return [self.name(number) for number in numbers]

    def find(self, name: str) -> int | None:
        """The number of `name`, or None; decodes O(log n) names."""
        (number,) = self._search([name])
        return None if number < 0 else number

    def find_all(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of k names, shape (k,); -1 for an unknown name."""
        if self._are_many(names):
            numbers = {name: number for number, name in enumerate(self) if name}
            found = [numbers.get(name, -1) for name in names]
        else:
            found = self._search(names)
        return np.array(found, dtype=np.int64)

    def starting_with(self, prefix: str, limit: int | None = None) -> list[int]:
        """The numbers of the first names, in sorted order, that start with `prefix` in any case."""
        folded, key = prefix.casefold(), self._keys()
        following = self.order[bisect_left(self.order, (folded, ""), key=key) :]
        matching = takewhile(lambda number: key(number)[0].startswith(folded), following)
        return [int(number) for number in islice(matching, limit)]

    def appended(self, names: Sequence[str]) -> "NameTable":
        """This table with k new distinct names at the end: O(k log n) and a copy of the arrays."""
        if self._are_many(names):
            return NameTable.of(chain(self, names))
        for name, number in zip(names, self._search(names), strict=True):
            if number >= 0:
                raise DataError(f"the name {name!r} exists already; leave it out")
        key, added = self._keys(), self.of(names)
        new_keys = (sort_key(names[number]) for number in added.order)
        places = [bisect_left(self.order, new_key, key=key) for new_key in new_keys]
        return NameTable(
            np.concatenate([self.text, added.text]),
            np.concatenate([self.ends, added.ends + len(self.text)]),
            np.insert(self.order, places, added.order + np.int32(len(self))),
        )

    def renamed(self, number: int, name: str) -> "NameTable":
        """This table with another name for a number; the empty one removes the name. Takes a copy
        of the arrays."""
        if name and self.find(name) is not None:
            raise DataError(f"the name {name!r} exists already; choose another")
        start = int(self.ends[number - 1]) if number else 0
        text, ends = encoded([name])
        longer = int(ends[0]) - (int(self.ends[number]) - start)
        parts = [self.text[:start], text, self.text[self.ends[number] :]]
        order = self.order[self.order != number]
        if name:
            place = bisect_left(order, sort_key(name), key=self._keys())
            order = np.insert(order, place, np.int32(number))
        moved = self.ends + np.where(np.arange(len(self)) >= number, longer, 0)
        return NameTable(np.concatenate(parts), moved, order)

    def near(self, name: str) -> list[str]:
        """Up to three names that are most similar to `name`, best first: of all names in a small
        table, undecoded because this is fast; in a large table of the neighbours of `name`. The
        work is bounded, whatever the table and the name."""
        if len(self) <= MAX_COMPARED_NAMES and len(self.text) <= MAX_COMPARED_BYTES:
            text = self.text.tobytes().lower()
            known = [text[start:end] for start, end in self._spans()]
            return list(filter(None, self.names(most_similar(name, known))))
        place = bisect_left(self.order, sort_key(name), key=self._keys())
        neighbours = self.names(self.order[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS])
        folded = [neighbour[:MAX_COMPARED].casefold() for neighbour in neighbours]
        places = most_similar(name, folded)
        return [neighbours[place] for place in places]

    def containing(self, text: str) -> list[int]:
        """The numbers of names that contain a text, in any case; see `Texts.containing`."""
        return self._texts.containing(text)

    def alike(self, text: str, limit: int) -> list[int]:
        """The numbers of the names that are most like a text; see `Texts.alike`."""
        return self._texts.alike(text, limit)

    @cached_property
    def _texts(self) -> Texts:
        return Texts.of(self.text, self.ends)

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays to be stored: `prefix.text`, `prefix.ends` and `prefix.order`."""
        return {f"{prefix}.{part}": getattr(self, part) for part in ("text", "ends", "order")}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Self:
        """The inverse of `arrays`. Only sizes are checked, so a memory-mapped file is not read; if
        names were removed, `ends` is."""
        text = stored_array(arrays, f"{prefix}.text", np.uint8)
        ends = stored_array(arrays, f"{prefix}.ends", np.int64)
        order = stored_array(arrays, f"{prefix}.order", np.int32)
        last = int(ends[-1]) if len(ends) else 0
        require_fit(last == len(text), f"{prefix} names end at {last} in {len(text)} bytes")
        table = cls(text, ends, order)
        left = len(ends) - len(table.removed)
        require_fit(len(order) == left, f"{left} {prefix} names, {len(order)} in order")
        return table

    def _are_many(self, names: Sequence[str]) -> bool:
        return len(names) * _SEARCH_COST >= len(self)

    def _search(self, names: Iterable[str]) -> list[int]:
        """The number of each name by binary search; -1 for an unknown name."""
        key, found = self._keys(), []
        for wanted in map(sort_key, names):
            place = bisect_left(self.order, wanted, key=key)
            known = place < len(self.order) and key(self.order[place]) == wanted
            found.append(int(self.order[place]) if known else -1)
        return found

    def _keys(self) -> Callable[[int], tuple[str, str]]:
        """The sort key of a number; a name is decoded once."""
        return cache(lambda number: sort_key(self.name(number)))

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Start and end of each name in `text`."""
        return pairwise(chain((0,), self.ends.tolist()))


class MappedNames(Names):
    """`Names` from two tables in arrays."""

    entity_table: NameTable
    relation_table: NameTable

    @classmethod
    def of(cls, entities: Iterable[str] = (), relations: Iterable[str] = ()) -> Self:
        """Both tables from distinct names, numbered in the given order."""
        return cls(NameTable.of(), NameTable.of()).appended(list(entities), list(relations))

    def appended(self, entities: Sequence[str] = (), relations: Sequence[str] = ()) -> Self:
        """These names with new distinct names at the end; ids do not change."""
        for name in entities:
            require_entity_name(name)
        for name in relations:
            require_relation_name(name)
        return type(self)(
            self.entity_table.appended(entities), self.relation_table.appended(relations)
        )

    @property
    def removed(self) -> NDArray[np.int64]:
        """The ids of entities that were removed, ascending, (r,)."""
        return self.entity_table.removed

    def with_entity_name(self, entity: int, name: str) -> Self:
        """These names with another name for an entity."""
        require_entity_name(name)
        return type(self)(self.entity_table.renamed(entity, name), self.relation_table)

    def without_entity(self, entity: int) -> Self:
        """These names without that of an entity; its id stays in use."""
        return type(self)(self.entity_table.renamed(entity, ""), self.relation_table)

    def with_relation_name(self, relation: int, name: str) -> Self:
        """These names with another name for a relation and its inverse."""
        require_relation_name(name)
        return type(self)(self.entity_table, self.relation_table.renamed(relation // 2, name))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of both tables, to be stored."""
        return self.entity_table.arrays("entity") | self.relation_table.arrays("relation")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `arrays`; only sizes are checked."""
        return cls(
            NameTable.from_arrays(arrays, "entity"), NameTable.from_arrays(arrays, "relation")
        )


def _sorted(names: Sequence[str]) -> NDArray[np.int32]:
    """The numbers of the names that are not empty, in sorted order."""
    numbers = filter(names.__getitem__, range(len(names)))
    return np.array(sorted(numbers, key=list(map(sort_key, names)).__getitem__), dtype=np.int32)


def _sorted_by_columns(names: Sequence[str]) -> NDArray[np.int32]:
    """`_sorted` for many names: UTF-8 sorts as text does, and only names that are not ASCII are
    casefolded one by one."""
    import pyarrow
    from pyarrow import compute

    text = pyarrow.array(names, pyarrow.large_string())
    plain = compute.string_is_ascii(text)
    odd = [name.casefold() for name in text.filter(compute.invert(plain)).to_pylist()]
    folded = compute.replace_with_mask(
        compute.ascii_lower(text), compute.invert(plain), pyarrow.array(odd, text.type)
    )
    keys = pyarrow.table([folded, text], ["folded", "name"])
    order = compute.sort_indices(keys, [(key, "ascending") for key in keys.column_names])
    numbers: NDArray[np.int32] = order.to_numpy().astype(np.int32)
    return numbers[len(names) - sum(map(bool, names)) :]


def sort_key(name: str) -> tuple[str, str]:
    """The key of the sorted order: names that differ only in case are neighbours."""
    return name.casefold(), name


def stored_array(
    arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]
) -> NDArray[Any]:
    """The stored one-dimensional array of that name, as a plain view; its content is not read."""
    stored = arrays.get(name)
    require_fit(stored is not None, f"the array {name!r} is missing")
    plain = np.asarray(stored)
    require_fit(
        plain.ndim == 1 and plain.dtype == dtype,
        f"the array {name!r} has shape {plain.shape} and type {plain.dtype}, "
        f"not (n,) and {np.dtype(dtype)}",
    )
    return plain


def require_fit(fits: bool, otherwise: str) -> None:
    """Raise DamagedFile if stored arrays do not fit together."""
    if not fits:
        raise DamagedFile(f"stored arrays do not fit together: {otherwise}; restore the file")


def encoded(names: Iterable[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """`text` (b,) and `ends` (n,) of n names."""
    try:
        pieces = [name.encode() for name in names]
    except UnicodeEncodeError as error:
        raise DataError(f"the name {error.object!r} is not valid Unicode; rename it") from error
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    return np.frombuffer(b"".join(pieces), dtype=np.uint8), ends


def decoded_names(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[str]:
    """The inverse of `encoded`."""
    whole, bounds = text.tobytes(), [0, *ends.tolist()]
    require_fit(bounds == sorted(bounds) and bounds[-1] == len(whole), "the ends of names")
    return [_decoded(whole[start:end]) for start, end in pairwise(bounds)]


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(f"a stored name is damaged: {error}; restore the file") from error
