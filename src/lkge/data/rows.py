"""Rows of named values: a list that is shown as a table, and is a data frame when asked for."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from lkge.errors import LkgeError

if TYPE_CHECKING:
    import pandas

Row = TypeVar("Row", bound=tuple[Any, ...])
SHOWN = 20
"""Rows that are shown at most."""


class Rows(list[Row]):
    """Named tuples of one kind; `to_frame` needs pandas."""

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas, a column for each field."""
        return frame(columns_of(self), self)

    def __repr__(self) -> str:
        return text_table(columns_of(self), self) if self else "[]"

    def _repr_html_(self) -> str:
        return html_table("", columns_of(self), self)


def columns_of(rows: Sequence[Any]) -> tuple[str, ...]:
    """The names of the fields of named tuples; none if there is no row."""
    return tuple(rows[0]._fields) if rows else ()


def frame(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> pandas.DataFrame:
    """A data frame of pandas, which is imported here."""
    try:
        import pandas
    except ImportError as error:
        raise LkgeError("a data frame needs pandas: pip install pandas") from error
    return pandas.DataFrame(list(rows), columns=list(columns) or None)


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The first rows in aligned columns, and how many more there are."""
    lines = [list(columns), *([shown(value) for value in row] for row in rows[:SHOWN])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*texts, *_rest(rows)])


def html_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The same as HTML, with a line above."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    lines = [
        "".join(f"<td>{html.escape(shown(value))}</td>" for value in row) for row in rows[:SHOWN]
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    above = f"<p>{html.escape(title)}</p>" if title else ""
    below = "".join(f"<p>{line}</p>" for line in _rest(rows))
    return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def shown(value: object) -> str:
    """A value as text: three decimals, no control characters."""
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "".join(letter if letter.isprintable() else "�" for letter in str(value))


def _rest(rows: Sequence[object]) -> list[str]:
    return [f"… {len(rows) - SHOWN:,} more"] if len(rows) > SHOWN else []
