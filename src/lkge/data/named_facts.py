"""The facts of one file by name, with their places in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lkge.data.columns import Layout
from lkge.data.fact_list import Column, FactList, Triple


@dataclass(frozen=True)
class NamedFacts:
    """The facts of one file as parallel columns, in the order of the file. `lines` are their line
    numbers (row numbers from 1 in Parquet), or None if the format, such as Turtle, has no line for
    each fact. `layout` is that of a table."""

    source: str
    subjects: Sequence[str]
    relations: Sequence[str]
    objects: Sequence[str]
    lines: Sequence[int] | None
    warnings: tuple[str, ...] = ()
    layout: Layout | None = None

    def __len__(self) -> int:
        return len(self.subjects)

    def __iter__(self) -> Iterator[Triple]:
        return zip(self.subjects, self.relations, self.objects, strict=True)

    @cached_property
    def encoded(self) -> FactList:
        """The facts, dictionary-encoded."""
        columns = self.subjects, self.relations, self.objects
        first, second, third = columns
        if isinstance(first, Column) and isinstance(second, Column) and isinstance(third, Column):
            ids = np.stack([first.numbers, second.numbers, third.numbers], axis=1)
            return FactList(first.names, second.names, ids)
        return FactList.of_columns(*columns)

    def place_of(self, position: int) -> str:
        """`file:line` of a fact, or `file` if facts have no lines."""
        return self.source if self.lines is None else f"{self.source}:{self.lines[position]}"


def left_out_warning(source: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    """How many facts were left out, and why; nothing if none was."""
    parts = [f"{count} with {reason}" for reason, count in sorted(counts.items())]
    total = sum(counts.values())
    return (f"{source}: left out {total} facts: {', '.join(parts)}",) if total else ()
