"""Which columns of a table are subject, relation and object.

A table has a header or not. Names that are known (`CERTAIN`) decide. A first line or column names
that seem to be a header, but do not decide, are an error: a graph learned in the wrong order looks
like any other. Whoever knows the columns gives them: `subject=source,relation=type,object=target`,
or by number, without a header: `subject=1,relation=3,object=2`.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from lkge.errors import DataError, SettingsError

KINDS = ("subject", "relation", "object")
Chosen = tuple[str, str, str]
"""The columns that were given for subject, relation and object: by name, or all by number."""
GivenColumns = str | Mapping[str, str | int] | None

CERTAIN = (
    frozenset({"subject", "subj", "s", "head", "h", "source", "from"}),
    frozenset({"relation", "rel", "r", "predicate", "pred", "p", "relationship"}),
    frozenset({"object", "obj", "o", "tail", "t", "target", "to"}),
)
"""Names of columns that have only one meaning, for each of `KINDS`."""
LIKELY = (
    CERTAIN[0] | {"src", "start"},
    CERTAIN[1] | {"type", "label", "property", "edge", "link", "verb"},
    CERTAIN[2] | {"dst", "dest", "destination", "end", "value"},
)
"""Names that such a column may have, among others."""
BESIDE = frozenset({"entity", "node", "id", "name", "label", "uri", "iri", "type", "1", "2"})
"""Words that stand beside these names, as in `head_id`, or have a number, as `node 2`."""
ALONE = frozenset({"relation", "relationship", "predicate"})
"""No relation and no entity has such a name: one is enough to be a header."""
MAX_HEADER_NAME = 40
DELIMITERS = "\t,;|"
SAMPLE = 1 << 16
"""So many letters are looked at to find the delimiter, and at most 32 rows."""


@dataclass(frozen=True)
class Layout:
    """How a table is read: the names of its columns, none without a header; the number of its
    columns; and the places of subject, relation and object among them, from 0."""

    names: tuple[str, ...]
    width: int
    places: tuple[int, int, int]

    @property
    def columns(self) -> dict[str, str]:
        """subject, relation and object → the name of the column, or its number from 1."""
        names = self.names or [str(place + 1) for place in range(self.width)]
        return {kind: names[place] for kind, place in zip(KINDS, self.places, strict=True)}

    @property
    def is_plain(self) -> bool:
        """Whether a row is a fact as it is."""
        return self.width == 3 and self.places == (0, 1, 2)


PLAIN = Layout((), 3, (0, 1, 2))


def chosen_columns(given: GivenColumns) -> Chosen | None:
    """The columns of a text such as `subject=a,relation=b,object=c`, or of a mapping."""
    if given is None:
        return None
    if isinstance(given, str):
        pairs = [part.partition("=")[::2] for part in given.split(",")]
    else:
        pairs = [(str(kind), str(column)) for kind, column in given.items()]
    found = {kind.strip(): column.strip() for kind, column in pairs}
    subject, relation, object_ = (found.get(kind, "") for kind in KINDS)
    if len(pairs) != 3 or not (subject and relation and object_):
        raise SettingsError(
            f"columns = {given!r}: name all three, subject=COLUMN,relation=COLUMN,object=COLUMN"
        )
    if len({subject, relation, object_}) < 3:
        raise SettingsError(f"columns = {given!r}: a column is named twice; name three")
    return subject, relation, object_


def layout_of_row(row: Sequence[str], chosen: Chosen | None, file: str, line: int) -> Layout:
    """The layout of a table of which this is the first row: a header or a fact."""
    if chosen is not None and all(each.isdecimal() for each in chosen):
        return _by_number(row, chosen, file, line)
    if chosen is not None or _places(row) is not None:
        return layout_of_names(row, chosen, file, line)
    if _seems_header(row):
        numbers = "--columns subject=1,relation=2,object=3"
        raise DataError(
            f"the first line ({_shown(row)}) may be a header, and it is not clear which column is "
            f"which; name them with {_remedy(row)}, or if it is a fact give numbers: {numbers}",
            file=file,
            line=line,
        )
    return PLAIN


def layout_of_names(
    names: Sequence[str], chosen: Chosen | None, file: str, line: int | None = None
) -> Layout:
    """The layout of a table whose columns have these names."""
    listed = [name.strip() for name in names]
    places = _places(names)
    if chosen is not None:
        if all(each.isdecimal() for each in chosen) and not set(chosen) <= set(listed):
            return Layout(tuple(listed), len(listed), _by_number(names, chosen, file, line).places)
        for name in chosen:
            if listed.count(name) != 1:
                there = "twice" if name in listed else "not"
                raise DataError(
                    f"the column {name!r} is {there} there; the columns are {_shown(names)}",
                    file=file,
                    line=line,
                )
        subject, relation, object_ = map(listed.index, chosen)
        places = subject, relation, object_
    if places is None:
        raise DataError(
            f"it is not clear which column is which ({_shown(names)}); name them with "
            f"{_remedy(names)}",
            file=file,
            line=line,
        )
    return Layout(tuple(listed), len(listed), places)


def may_be_header(row: Sequence[str]) -> bool:
    """Whether a reader does not take this first row for a fact."""
    return _places(row) is not None or _seems_header(row)


def delimiter_of(text: str, own: str) -> str:
    """The delimiter of a text: that of its format, unless its rows are uneven with that one and
    even, of three fields at least, with exactly one other."""
    sample = text[:SAMPLE]
    if len(text) > SAMPLE:
        sample = sample.rpartition("\n")[0] or sample

    def fits(delimiter: str) -> bool:
        rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
        try:
            filled = (row for row in rows if len(row) > 1 or "".join(row).strip())
            widths = {len(row) for row in islice(filled, 32)}
        except csv.Error:
            return False
        return len(widths) == 1 and widths.pop() >= 3

    if fits(own):
        return own
    others = [each for each in DELIMITERS if each != own and fits(each)]
    return others[0] if len(others) == 1 else own


def _by_number(row: Sequence[str], chosen: Chosen, file: str, line: int | None) -> Layout:
    subject, relation, object_ = (int(each[:9]) - 1 for each in chosen)
    for place in (subject, relation, object_):
        if not 0 <= place < len(row):
            complaint = f"there is no column {place + 1}; the first line has {len(row)}"
            raise DataError(f"{complaint}, numbered from 1", file=file, line=line)
    return Layout((), len(row), (subject, relation, object_))


def _places(names: Sequence[str]) -> tuple[int, int, int] | None:
    """The columns whose names are certain, if there is exactly one for each of `KINDS`."""
    words = [name.strip().lower() for name in names]
    found = [[at for at, word in enumerate(words) if word in known] for known in CERTAIN]
    if any(len(places) != 1 for places in found):
        return None
    (subject,), (relation,), (object_,) = found
    return subject, relation, object_


def _seems_header(row: Sequence[str]) -> bool:
    """Whether two ends have names such as columns have, or an end and the relation between."""
    words = [_word(cell) for cell in row]
    found = [any(word in likely for word in words) for likely in LIKELY]
    certain = [any(word in known for word in words) for known in (CERTAIN[0], CERTAIN[2])]
    return (found[0] and found[2]) or (found[1] and any(certain)) or bool(ALONE & set(words))


def _word(cell: str) -> str:
    """The one word of a cell that may be the name of a column; empty if it has more than one."""
    if len(cell) > MAX_HEADER_NAME:
        return ""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", cell)
    if re.sub(r"[\W_]", "", cell) != "".join(words):
        return ""
    words = [word.lower() for word in words]
    if len(words) == 2 and words[0] in BESIDE and words[1] in ("1", "2"):
        return "start" if words[1] == "1" else "end"
    left = [word for word in words if word not in BESIDE] or words
    return left[0] if len(left) == 1 and len(left[0]) > 1 else ""


def _remedy(names: Sequence[str]) -> str:
    """The option that gives the columns, filled in as far as names say."""
    words, chosen = [_word(name) or name.strip().lower() for name in names], list[str]()
    for likely in LIKELY:
        found = [name for name, word in zip(names, words, strict=True) if word in likely]
        chosen.append(found[0] if len(found) == 1 else "…")
    left = [name for name in names if name not in chosen]
    if len(left) == 1 and len(names) == 3:
        chosen = [left[0] if name == "…" else name for name in chosen]
    named = (f"{kind}={name.strip()}" for kind, name in zip(KINDS, chosen, strict=True))
    return f"--columns {','.join(named)}"


def _shown(names: Sequence[str]) -> str:
    """The names of columns in an error, of bounded length."""
    some = ", ".join(name.strip()[:MAX_HEADER_NAME] for name in names[:8])
    return f"{some}, …" if len(names) > 8 else some
