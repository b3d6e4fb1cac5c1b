"""Names in a large table, which may be mapped from a file, and a few changes in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.name_search import Texts
from lkge.data.names import (
    MAX_COMPARED_NAMES,
    NameTable,
    decoded_names,
    encoded,
    require_fit,
    sort_key,
    stored_array,
)
from lkge.errors import DataError, most_similar

Arrays = Mapping[str, NDArray[Any]]


class ChangedNames(NameTable):
    """A table `base` with other names for some numbers, and more names behind its last one. All is
    as in the table of what is there then; a change copies nothing of the base."""

    base: NameTable
    renamed_to: dict[int, str]
    """Number → its name now; an empty one is removed."""
    added: tuple[str, ...]
    """The names behind those of the base, as they were added."""

    def __init__(
        self, base: NameTable, renamed: Mapping[int, str] | None = None, added: Sequence[str] = ()
    ) -> None:
        vars(self).update(base=base, renamed_to=dict(renamed or {}), added=tuple(added))

    @cached_property
    def whole(self) -> NameTable:
        """The table in arrays. Takes a copy of all."""
        table, size = self.base, len(self.base)
        changed = {number: name for number, name in self.renamed_to.items() if number < size}
        for number in changed:
            table = table.renamed(number, "")
        if self.added:
            table = table.appended([self.name(size + place) for place in range(len(self.added))])
        for number, name in changed.items():
            table = table.renamed(number, name) if name else table
        return table

    @property
    def text(self) -> NDArray[np.uint8]:
        """That of `whole`."""
        return self.whole.text

    @property
    def ends(self) -> NDArray[np.int64]:
        """Those of `whole`."""
        return self.whole.ends

    @property
    def order(self) -> NDArray[np.int32]:
        """That of `whole`."""
        return self.whole.order

    def __len__(self) -> int:
        return len(self.base) + len(self.added)

    @cached_property
    def removed(self) -> NDArray[np.int64]:
        gone = [number for number, name in self.renamed_to.items() if not name]
        return np.union1d(self.base.removed, np.array(gone, dtype=np.int64))

    def __iter__(self) -> Iterator[str]:
        for number, name in enumerate(chain(self.base, self.added)):
            yield self.renamed_to.get(number, name)

    def name(self, number: int) -> str:
        number = int(number)
        if number in self.renamed_to:
            return self.renamed_to[number]
        size = len(self.base)
        return self.base.name(number) if number < size else self.added[number - size]

    def find(self, name: str) -> int | None:
        if (number := self._numbers.get(name)) is not None:
            return number
        number = self.base.find(name)
        return None if number in self.renamed_to else number

    def find_all(self, names: Sequence[str]) -> NDArray[np.int64]:
        found = self.base.find_all(names)
        for place, name in enumerate(names):
            if name in self._numbers:
                found[place] = self._numbers[name]
            elif int(found[place]) in self.renamed_to:
                found[place] = -1
        return found

    def starting_with(self, prefix: str, limit: int | None = None) -> list[int]:
        more = None if limit is None else limit + len(self.renamed_to)
        theirs = (n for n in self.base.starting_with(prefix, more) if n not in self.renamed_to)
        folded = prefix.casefold()
        mine = [n for name, n in self._numbers.items() if name.casefold().startswith(folded)]
        both = sorted([*theirs, *mine], key=lambda number: sort_key(self.name(number)))
        return list(islice(both, limit))

    def containing(self, text: str) -> list[int]:
        theirs = [n for n in self.base.containing(text) if n not in self.renamed_to]
        return theirs + [self._own[place] for place in self._own_texts.containing(text)]

    def alike(self, text: str, limit: int) -> list[int]:
        theirs = self.base.alike(text, limit + len(self.renamed_to))
        both = [n for n in theirs if n not in self.renamed_to]
        both += [self._own[place] for place in self._own_texts.alike(text, limit)]
        best = Texts.of(*encoded(map(self.name, both))).alike(text, limit)
        return [both[place] for place in best]

    @cached_property
    def _own(self) -> list[int]:
        """The numbers whose names are not those of the base."""
        return list(self._numbers.values())

    @cached_property
    def _own_texts(self) -> Texts:
        return Texts.of(*encoded(map(self.name, self._own)))

    def appended(self, names: Sequence[str]) -> "ChangedNames":
        for name, number in zip(names, self.find_all(names), strict=True):
            if number >= 0:
                raise DataError(f"the name {name!r} exists already; leave it out")
        NameTable.of(names)  # distinct, and valid Unicode
        return ChangedNames(self.base, self.renamed_to, (*self.added, *names))

    def renamed(self, number: int, name: str) -> "ChangedNames":
        if name and self.find(name) is not None:
            raise DataError(f"the name {name!r} exists already; choose another")
        encoded([name])
        return ChangedNames(self.base, {**self.renamed_to, int(number): name}, self.added)

    def near(self, name: str) -> list[str]:
        if len(self) <= MAX_COMPARED_NAMES:
            known = list(filter(None, self))
        else:
            theirs = self.base.near(name)
            gone = {self.base.name(n) for n in self.renamed_to if n < len(self.base)}
            known = [*(each for each in theirs if each not in gone), *self._numbers]
        return [known[place] for place in most_similar(name, [each.casefold() for each in known])]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each name that is not in the base."""
        size = len(self.base)
        added = {name: size + place for place, name in enumerate(self.added)}
        same = {name: n for name, n in added.items() if n not in self.renamed_to}
        return same | {name: number for number, name in self.renamed_to.items() if name}

    # Deltas

    def delta(self, before: NameTable, prefix: str) -> dict[str, NDArray[Any]]:
        """What differs from the table before, which has the same base: `prefix.text` and
        `prefix.ends` of the names that were added, and the same of `prefix.changed`, numbers that
        have another name. Empty if nothing differs."""
        assert isinstance(before, ChangedNames)
        assert before.base is self.base
        added = self.added[len(before.added) :]
        changed = {
            number: name
            for number, name in sorted(self.renamed_to.items())
            if before.renamed_to.get(number) != name
        }
        if not added and not changed:
            return {}
        numbers = np.array(list(changed), dtype=np.int64)
        arrays: dict[str, NDArray[Any]] = {f"{prefix}.changed": numbers}
        for part, names in ((prefix, added), (f"{prefix}.changed", changed.values())):
            arrays[f"{part}.text"], arrays[f"{part}.ends"] = encoded(names)
        return arrays

    @staticmethod
    def after(base: NameTable, deltas: Iterable[Arrays], prefix: str) -> "ChangedNames":
        """A table after deltas, in order; those without arrays of the prefix change nothing."""
        renamed, added = dict[int, str](), list[str]()
        for arrays in deltas:
            if f"{prefix}.changed" in arrays:
                added += _names(arrays, prefix)
                numbers = stored_array(arrays, f"{prefix}.changed", np.int64).tolist()
                size = len(base) + len(added)
                require_fit(all(0 <= n < size for n in numbers), f"{prefix} numbers")
                renamed |= zip(numbers, _names(arrays, f"{prefix}.changed"), strict=True)
        return ChangedNames(base, renamed, added)


def _names(arrays: Arrays, prefix: str) -> list[str]:
    text = stored_array(arrays, f"{prefix}.text", np.uint8)
    return decoded_names(text, stored_array(arrays, f"{prefix}.ends", np.int64))
