"""Tables of facts: TSV, CSV, JSON Lines and Parquet. `columns.py` says which column is which."""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

import numpy as np

from lkge.data.columns import (
    KINDS,
    PLAIN,
    Chosen,
    Layout,
    delimiter_of,
    layout_of_names,
    layout_of_row,
)
from lkge.data.documents import parse_json
from lkge.data.fact_list import Column, in_order_of_appearance
from lkge.data.named_facts import NamedFacts
from lkge.data.reading import Budget
from lkge.errors import DataError

LARGE_TSV = 1 << 20
"""From so many bytes on TSV is parsed by columns: loading pyarrow takes a tenth of a second."""
NAMES_OF_SEPARATORS = {"\t": "a tab", ",": "a comma", ";": "a semicolon", "|": "a vertical bar"}


def parse_tsv(data: bytes, name: str, chosen: Chosen | None = None) -> NamedFacts:
    """Parse TSV: a fact a line, or columns and a header; blank lines are skipped. Lines without
    tabs may have another delimiter."""
    line, number = _first_line(data)
    if line and "\t" not in line:
        text = _decoded(data, name)
        if (delimiter := delimiter_of(text, "\t")) != "\t":
            return _parse_delimited(text, name, chosen, delimiter)
    layout = layout_of_row(line.split("\t"), chosen, name, number) if line else PLAIN
    large = len(data) >= LARGE_TSV
    return (parse_plain_tsv(data, name, layout) if large else None) or parse_tsv_by_line(
        data, name, layout
    )


def _first_line(data: bytes) -> tuple[str, int]:
    """The first line that is not blank, and its number; what is no UTF-8 is replaced."""
    start, number = 0, 1
    data = data.removeprefix(codecs.BOM_UTF8)
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line = data[start:end].removesuffix(b"\r")
        if line.strip(b" "):
            return line.decode(errors="replace"), number
        start, number = end + 1, number + 1
    return "", number


def parse_plain_tsv(data: bytes, name: str, layout: Layout = PLAIN) -> NamedFacts | None:
    """Parse TSV by columns. None if there is anything but lines of as many names:
    `parse_tsv_by_line` reads the rest, and has the errors."""
    import pyarrow.csv

    text = data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
    blank = not text or text.startswith(b"\n") or b"\n\n" in text
    if blank or b"\r" in text or text.startswith(codecs.BOM_UTF8):
        return None
    names, string = [str(place) for place in range(layout.width)], pyarrow.string()
    kept = [names[place] for place in layout.places]
    header = bool(layout.names)
    try:
        table = pyarrow.csv.read_csv(
            pyarrow.BufferReader(text),
            pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(header)),
            pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, string),
                strings_can_be_null=False,
                include_columns=kept,
            ),
        )
    except pyarrow.ArrowException:
        return None
    subjects, objects = (table[place].chunks for place in kept[::2])
    ends = pyarrow.chunked_array([*subjects, *objects], string).combine_chunks()
    between = table[kept[1]].combine_chunks()
    return _of_arrow(name, ends.dictionary_encode(), between, layout)


def _of_arrow(name: str, ends: Any, relations: Any, layout: Layout) -> NamedFacts:
    """Facts from arrays of pyarrow: first all subjects, then all objects, dictionary-encoded."""
    between = relations.dictionary_encode()
    subjects, objects = np.split(ends.indices.to_numpy(), 2)
    subjects, objects, entities = in_order_of_appearance(
        subjects, objects, ends.dictionary.to_pylist()
    )
    kinds = Column(between.dictionary.to_pylist(), between.indices.to_numpy())
    columns = Column(entities, subjects), kinds, Column(entities, objects)
    first = 2 if layout.names else 1
    return NamedFacts(name, *columns, range(first, first + len(subjects)), layout=layout)


def parse_tsv_by_line(data: bytes, name: str, layout: Layout = PLAIN) -> NamedFacts:
    """`parse_tsv` line by line."""
    lines = _decoded(data, name).replace("\r\n", "\n").removesuffix("\r").split("\n")
    filled = [bool(line.strip(" ")) for line in lines]
    numbers = list(compress(range(1, len(lines) + 1), filled))
    lines = list(compress(lines, filled))
    if layout.names:
        del lines[0], numbers[0]
    for line, number in zip(lines, numbers, strict=True):
        if line.count("\t") != layout.width - 1:
            raise _wrong_fields(line.count("\t") + 1, layout, "\t", name, number)
    if layout.is_plain:
        fields = "\t".join(lines).split("\t") if lines else []
    else:
        rows = (line.split("\t") for line in lines)
        fields = [row[place] for row in rows for place in layout.places]
    return _of_fields(fields, numbers, layout, name)


def _of_fields(fields: list[str], lines: Sequence[int], layout: Layout, name: str) -> NamedFacts:
    """Facts from a list of subject, relation, object, subject …"""
    return NamedFacts(name, fields[0::3], fields[1::3], fields[2::3], lines, layout=layout)


def parse_csv(data: bytes, name: str, chosen: Chosen | None = None) -> NamedFacts:
    """Parse CSV: a fact a row, quoted if needed, or columns and a header."""
    text = _decoded(data, name)
    return _parse_delimited(text, name, chosen, delimiter_of(text, ","))


def _parse_delimited(text: str, name: str, chosen: Chosen | None, delimiter: str) -> NamedFacts:
    Budget(name).add(len(text), fields=text.count(delimiter))
    layout: Layout | None = None
    fields, numbers = list[str](), list[int]()
    for row, number in _filled_rows(text, name, delimiter):
        if layout is None:
            layout = layout_of_row(row, chosen, name, number)
            if layout.names:
                continue
        if len(row) != layout.width:
            raise _wrong_fields(len(row), layout, delimiter, name, number)
        fields += [row[place] for place in layout.places]
        numbers.append(number)
    return _of_fields(fields, numbers, layout or PLAIN, name)


def _filled_rows(text: str, name: str, delimiter: str) -> Iterator[tuple[list[str], int]]:
    """The rows that are not blank, and the numbers of their first lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for row in reader:
            if len(row) > 1 or "".join(row).strip(" "):
                yield row, start
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"not valid CSV: {error}; mend it", file=name, line=start) from error


def parse_json_lines(data: bytes, name: str, chosen: Chosen | None = None) -> NamedFacts:
    """Parse JSON Lines: an object or an array of three texts a line. The names in the first object
    are the columns."""
    layout: Layout | None = None
    keys = list[str]()
    fields, numbers = list[str](), list[int]()
    for number, line in enumerate(io.BytesIO(data.removeprefix(codecs.BOM_UTF8)), start=1):
        if not line.strip():
            continue
        row = _json_row(line, name, number)
        if layout is None:
            if isinstance(row, dict):
                layout = layout_of_names(list(row), chosen, name, number)
                keys = [list(row)[place] for place in layout.places]
            else:
                layout = layout_of_row(list(map(str, row)), chosen, name, number)
                if layout.names:
                    continue
        fields += _json_names(row, keys, layout, name, number)
        numbers.append(number)
    return _of_fields(fields, numbers, layout or PLAIN, name)


def _json_row(line: bytes, name: str, number: int) -> dict[str, Any] | list[Any]:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise DataError(f"not valid JSON: {error}; mend it", file=name, line=number) from error
    if not isinstance(row, (dict, list)):
        complaint = "a line must be a JSON object or an array of three names; mend this line"
        raise DataError(complaint, file=name, line=number)
    return row


def _shown_json(value: Any) -> str:
    """A value in an error, of bounded length."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def _json_names(
    row: dict[str, Any] | list[Any], keys: Sequence[str], layout: Layout, name: str, number: int
) -> list[str]:
    """Subject, relation and object of a line."""
    if isinstance(row, dict) != bool(keys):
        complaint = "objects and arrays are mixed; write all lines in the same way"
        raise DataError(complaint, file=name, line=number)
    if isinstance(row, list) and len(row) != layout.width:
        raise _wrong_fields(len(row), layout, ",", name, number)
    found: list[Any]
    if isinstance(row, dict):
        found = [row.get(key) for key in keys]
    else:
        found = [row[place] for place in layout.places]
    for kind, value in zip(KINDS, found, strict=True):
        if not isinstance(value, str):
            complaint = f"the {kind} is not a text but {_shown_json(value)}; mend this line"
            raise DataError(complaint, file=name, line=number)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            complaint = f"the {kind} is not valid Unicode: {error.reason}; mend this line"
            raise DataError(complaint, file=name, line=number) from error
    return found


PARQUET_ROWS = 1 << 16
"""Rows that are read at a time."""


def parse_parquet(data: bytes, name: str, chosen: Chosen | None = None) -> NamedFacts:
    """Parse Parquet: the names of its columns decide."""
    import pyarrow.parquet

    columns: tuple[list[str], ...] = [], [], []
    budget = Budget(name)
    try:
        source = pyarrow.BufferReader(data)
        schema = pyarrow.parquet.read_schema(source)
        layout = layout_of_names(schema.names, chosen, name)
        kept = [schema.names[place] for place in layout.places]
        file = pyarrow.parquet.ParquetFile(source, read_dictionary=kept)
        for batch in file.iter_batches(PARQUET_ROWS, columns=kept):
            budget.add(0, facts=len(batch))
            for names, column in zip(columns, map(batch.column, kept), strict=True):
                names += _texts(column, budget)
    except MemoryError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, LookupError) as error:
        raise DataError(f"cannot be read as Parquet ({error}); make it anew", file=name) from error
    subjects, relations, objects = columns
    lines = range(1, len(subjects) + 1)
    return NamedFacts(name, subjects, relations, objects, lines, layout=layout)


def _texts(column: Any, budget: Budget) -> list[str]:
    """A column as names; equal names are one object, and null is empty."""
    coded = column if hasattr(column, "dictionary") else column.cast("str").dictionary_encode()
    budget.add(coded.dictionary.nbytes)
    names = [*coded.dictionary.cast("str").fill_null("").to_pylist(), ""]
    return [names[at] for at in coded.indices.fill_null(len(names) - 1).to_pylist()]


def _decoded(data: bytes, name: str) -> str:
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError("not valid UTF-8; save the file as UTF-8", file=name, line=line) from error


def _wrong_fields(found: int, layout: Layout, delimiter: str, name: str, line: int) -> DataError:
    between = f"with {NAMES_OF_SEPARATORS[delimiter]} between them"
    there = f"found {found} field{'' if found == 1 else 's'}; mend this line"
    if layout != PLAIN:
        complaint = f"expected {layout.width} fields {between}, as in the first line, {there}"
    elif found > 3:
        remedy = "or name the columns with --columns subject=1,relation=2,object=3"
        complaint = f"expected subject, relation and object {between}, {there}, {remedy}"
    else:
        complaint = f"expected subject, relation and object {between}, {there}"
    return DataError(complaint, file=name, line=line)
