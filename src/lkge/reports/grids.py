"""A table of texts, and how a terminal and Markdown show it. Nothing heavy is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from lkge.reports.text import printable

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Cell:
    """A text; `best` of its column (bold), or `faint`."""

    text: str
    best: bool = False
    faint: bool = False


Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """A table: rows in sections. The first `names` columns hold names, the others numbers."""

    title: str
    columns: tuple[str, ...]
    sections: tuple[tuple[Row, ...], ...]
    names: int = 1
    note: str = ""


def grid_of(
    title: str,
    columns: Iterable[str],
    rows: Iterable[Iterable[Cell | str]],
    names: int = 1,
    note: str = "",
) -> Grid:
    """A table of one section."""
    section = tuple(tuple(c if isinstance(c, Cell) else Cell(c) for c in row) for row in rows)
    return Grid(title, tuple(columns), (section,), names, note)


def notes_once(grids: Sequence[Grid]) -> list[Grid]:
    """The same grids; a note that the next grid repeats is left out."""
    return [
        replace(grid, note="") if after is not None and grid.note == after.note else grid
        for grid, after in pairwise([*grids, None])
        if grid is not None
    ]


def rich_table(grid: Grid) -> Table:
    """The grid for a `rich` console: a deviation is below its mean. Names are not markup, and
    their control characters are replaced."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(printable(grid.title), style="bold"),
        caption=Text(f"{printable(grid.note)}\n", style="dim") if grid.note else None,
        title_justify="left",
        caption_justify="left",
        header_style="bold cyan",
        border_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column in grid.columns[: grid.names]:
        table.add_column(Text(printable(column)), overflow="fold")
    for column in grid.columns[grid.names :]:
        table.add_column(Text(column.replace(" ", "\n")), justify="right", no_wrap=True)
    for section in grid.sections:
        for row in section:
            styles = ["bold green" if c.best else "dim" if c.faint else "" for c in row]
            words = [printable(cell.text).replace(" ±", "\n±") for cell in row]
            table.add_row(*map(Text, words, styles))
        table.add_section()
    return table


def markdown_table(grid: Grid) -> str:
    """The grid as a Markdown table, the best in bold, and its note below."""
    rules = ["---" if position < grid.names else "---:" for position in range(len(grid.columns))]
    rows = [list(map(markdown_text, grid.columns)), rules]
    for row in (row for section in grid.sections for row in section):
        texts = [(markdown_text(cell.text), cell.best) for cell in row]
        rows.append([f"**{words}**" if best else words for words, best in texts])
    note = f"\n{markdown_text(grid.note)}\n" if grid.note else ""
    return "".join(f"| {' | '.join(row)} |\n" for row in rows) + note


def markdown_text(words: str) -> str:
    """The words with everything escaped that Markdown would read."""
    return re.sub(r"([\\`*_\[\]<>|#~&!])", r"\\\1", words)
