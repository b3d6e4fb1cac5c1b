"""Questions to a living graph: (subject, relation, ?) or (?, relation, object)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lkge.errors import DataError, SettingsError

ASKED = "?"


class Question(NamedTuple):
    """A fact with its subject or its object left open, and where it was asked, if in a file."""

    subject: str | None
    relation: str
    object: str | None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        return f"({self.subject or ASKED}, {self.relation}, {self.object or ASKED})"


def questions_of(
    subject: str | None, relation: str | None, object_: str | None, batch: Path | None
) -> list[Question]:
    """The question of the flags, or those of a file; they exclude each other."""
    flags = {"-s": subject, "-r": relation, "-o": object_}
    if batch is not None:
        given = [flag for flag, value in flags.items() if value is not None]
        if given:
            raise SettingsError(f"--batch asks what its file says: leave out {', '.join(given)}")
        return read_questions(batch)
    if relation is None or (subject is None) == (object_ is None):
        raise SettingsError("ask with -s SUBJECT -r RELATION, -r RELATION -o OBJECT, or --batch")
    return [Question(subject, relation, object_)]


def read_questions(path: Path) -> list[Question]:
    """One question a line: two names and a `?`, with tabs between."""
    from lkge.data.formats import parse_tsv

    columns = parse_tsv(path.read_bytes(), str(path))
    rows = zip(columns.subjects, columns.relations, columns.objects, strict=True)
    return [
        _question(row, str(path), line) for row, line in zip(rows, columns.lines or (), strict=True)
    ]


def _question(row: Sequence[str], file: str, line: int) -> Question:
    subject, relation, object_ = row
    if (subject == ASKED) == (object_ == ASKED) or not all(name.strip() for name in row):
        raise DataError(
            f"expected subject, relation, {ASKED} or {ASKED}, relation, object",
            file=file,
            line=line,
        )
    open_subject = subject == ASKED
    return Question(
        None if open_subject else subject, relation, object_ if open_subject else None, file, line
    )
