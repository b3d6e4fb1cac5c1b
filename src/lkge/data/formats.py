"""File formats: a parser and a formatter per format, and compression. All work on bytes.

The file name selects both: the last suffix but one the format, the last one the compression.
"""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any, BinaryIO

from lkge.data.reading import Budget, Stream
from lkge.errors import DataError

Triple = tuple[str, str, str]
"""A fact by name: subject, relation, object."""

KINDS = ("subject", "relation", "object")


@dataclass(frozen=True)
class NamedFacts:
    """The facts of one file as parallel columns, in the order of the file. `lines` are their line
    numbers (row numbers from 1 in Parquet), or None if the format, such as Turtle, has no line for
    each fact."""

    source: str
    subjects: Sequence[str]
    relations: Sequence[str]
    objects: Sequence[str]
    lines: Sequence[int] | None
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.subjects)

    def __iter__(self) -> Iterator[Triple]:
        return zip(self.subjects, self.relations, self.objects, strict=True)

    def place_of(self, position: int) -> str:
        """`file:line` of a fact, or `file` if facts have no lines."""
        return self.source if self.lines is None else f"{self.source}:{self.lines[position]}"


def parse_tsv(data: bytes, name: str) -> NamedFacts:
    """Parse TSV: three names a line; blank lines are skipped."""
    lines = _decoded(data, name).replace("\r\n", "\n").removesuffix("\r").split("\n")
    filled = [bool(line.strip(" ")) for line in lines]
    numbers = list(compress(range(1, len(lines) + 1), filled))
    lines = list(compress(lines, filled))
    for line, number in zip(lines, numbers, strict=True):
        if line.count("\t") != 2:
            raise _wrong_fields(line.count("\t") + 1, "a tab", name, number)
    fields = "\t".join(lines).split("\t") if lines else []
    return NamedFacts(name, fields[0::3], fields[1::3], fields[2::3], numbers)


_HEADERS = {KINDS, ("head", "relation", "tail"), ("s", "p", "o")}


def parse_csv(data: bytes, name: str) -> NamedFacts:
    """Parse CSV: three names a row, quoted if needed; a header is skipped."""
    reader = csv.reader(io.StringIO(_decoded(data, name), newline=""), strict=True)
    fields: list[str] = []
    numbers: list[int] = []
    start = 1
    try:
        for row in reader:
            if len(row) == 3:
                fields += row
                numbers.append(start)
            elif len(row) > 1 or "".join(row).strip(" "):
                raise _wrong_fields(len(row), "a comma", name, start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"not valid CSV: {error}; mend it", file=name, line=start) from error
    if tuple(field.strip().lower() for field in fields[:3]) in _HEADERS:
        del fields[:3], numbers[0]
    return NamedFacts(name, fields[0::3], fields[1::3], fields[2::3], numbers)


def parse_n_triples(data: bytes, name: str) -> NamedFacts:
    """Parse N-Triples: one statement a line."""
    return _parse_rdf(data, name, "nt", _statement_lines(data))


def parse_turtle(data: bytes, name: str) -> NamedFacts:
    """Parse Turtle; statements have no line numbers."""
    return _parse_rdf(data, name, "ttl", None)


def _parse_rdf(data: bytes, name: str, extension: str, lines: Iterable[int] | None) -> NamedFacts:
    """The statements between IRIs; `lines` are the numbers of the lines of all statements."""
    import pyoxigraph

    form, iri = pyoxigraph.RdfFormat.from_extension(extension), pyoxigraph.NamedNode
    columns: tuple[list[str], ...] = [], [], []
    subjects, relations, objects = columns
    kept, budget = list[bool](), Budget(name)
    try:
        for statement in pyoxigraph.parse(data.removeprefix(codecs.BOM_UTF8), format=form):
            subject, object_ = statement.subject, statement.object
            kept.append(isinstance(subject, iri) and isinstance(object_, iri))
            if kept[-1]:
                subjects.append(subject.value)
                relations.append(statement.predicate.value)
                objects.append(object_.value)
                budget.add(sum(len(names[-1]) for names in columns), facts=1)
    except SyntaxError as error:
        raise DataError(f"{error.msg}; mend it", file=name, line=error.lineno) from error
    left_out = kept.count(False)
    warning = f"{name}: left out {left_out} facts with literals or blank nodes"
    numbers = None if lines is None else list(compress(lines, kept))
    warnings = (warning,) if left_out else ()
    return NamedFacts(name, subjects, relations, objects, numbers, warnings)


def _statement_lines(data: bytes) -> Iterator[int]:
    """The numbers of the lines of N-Triples data that have a statement."""
    for number, line in enumerate(data.splitlines(), start=1):
        content = line.removeprefix(codecs.BOM_UTF8).strip()
        if content and not content.startswith(b"#"):
            yield number


_COLUMN_NAMES = (("subject", "head", "s"), ("relation", "predicate", "p"), ("object", "tail", "o"))


def parse_parquet(data: bytes, name: str) -> NamedFacts:
    """Parse Parquet: columns with known names (`_COLUMN_NAMES`), else the first three of text."""
    import pyarrow.parquet

    try:
        source = pyarrow.BufferReader(data)
        schema = pyarrow.parquet.read_schema(source)
        chosen = _fact_columns({field.name: str(field.type) for field in schema}, name)
        file = pyarrow.parquet.ParquetFile(source, read_dictionary=chosen)
        Budget(name).add(_unpacked_size(file.metadata, chosen), facts=file.metadata.num_rows)
        table = file.read(columns=chosen)
        subjects, relations, objects = (_texts(table[column]) for column in chosen)
    except MemoryError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, LookupError) as error:
        raise DataError(f"cannot be read as Parquet ({error}); make it anew", file=name) from error
    return NamedFacts(name, subjects, relations, objects, range(1, len(subjects) + 1))


def _unpacked_size(metadata: Any, columns: Sequence[str]) -> int:
    """The bytes of some columns without compression; values that repeat are there once."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    names = frozenset(columns)
    return sum(c.total_uncompressed_size for c in chunks if c.path_in_schema in names)


def _texts(column: Any) -> list[str]:
    """A column as names; equal names of a piece are one object, and null is empty."""
    names: list[str] = []
    for chunk in column.chunks:
        coded = chunk if hasattr(chunk, "dictionary") else chunk.cast("str").dictionary_encode()
        values = [*coded.dictionary.cast("str").fill_null("").to_pylist(), ""]
        names += map(values.__getitem__, coded.indices.fill_null(len(values) - 1).to_pylist())
    return names


def _fact_columns(types: dict[str, str], name: str) -> list[str]:
    named = [next((c for c in types if c.lower() in names), "") for names in _COLUMN_NAMES]
    texts = [column for column, kind in types.items() if "string" in kind]
    chosen = named if all(named) else texts[:3]
    if len(chosen) < 3:
        raise DataError("needs three columns of text: subject, relation, object", file=name)
    return chosen


def _decoded(data: bytes, name: str) -> str:
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError("not valid UTF-8; save the file as UTF-8", file=name, line=line) from error


def _wrong_fields(found: int, separator: str, name: str, line: int) -> DataError:
    return DataError(
        f"expected subject, relation and object with {separator} between them, "
        f"found {found} field{'' if found == 1 else 's'}; mend this line",
        file=name,
        line=line,
    )


def format_tsv(facts: Sequence[Triple], name: str) -> bytes:
    """The inverse of `parse_tsv`, for names without tabs and line breaks."""
    for fact in facts:
        if any(mark in field for field in fact for mark in "\t\r\n"):
            raise DataError(f"{fact} has a tab or line break; write CSV or Parquet", file=name)
    return _encoded("".join("\t".join(fact) + "\n" for fact in facts))


def format_csv(facts: Iterable[Triple], name: str) -> bytes:
    """The inverse of `parse_csv`, with a header."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([KINDS, *facts])
    return _encoded(text.getvalue())


def format_parquet(facts: Sequence[Triple], name: str) -> bytes:
    """The inverse of `parse_parquet`: columns subject, relation, object."""
    import pyarrow.parquet

    text, sink = pyarrow.string(), io.BytesIO()
    columns = [pyarrow.array([fact[place] for fact in facts], text) for place in range(3)]
    pyarrow.parquet.write_table(pyarrow.table(columns, list(KINDS)), sink)
    return sink.getvalue()


def _encoded(text: str) -> bytes:
    """UTF-8. A text that starts with a byte order mark gets a second one, as parsers drop one."""
    data = text.encode("utf-8")
    return codecs.BOM_UTF8 + data if data.startswith(codecs.BOM_UTF8) else data


PARSERS: dict[str, Callable[[bytes, str], NamedFacts]] = {
    ".txt": parse_tsv,
    ".tsv": parse_tsv,
    ".csv": parse_csv,
    ".nt": parse_n_triples,
    ".ttl": parse_turtle,
    ".parquet": parse_parquet,
}

FORMATTERS: dict[str, Callable[[Sequence[Triple], str], bytes]] = {
    ".txt": format_tsv,
    ".tsv": format_tsv,
    ".csv": format_csv,
    ".parquet": format_parquet,
}


@contextmanager
def unpacking(packed: BinaryIO, compression: str, name: str) -> Iterator[Stream]:
    """The stream of the decompressed bytes; `compression` is a suffix such as `.gz`, or empty. An
    error of the block that comes from damaged data is a DataError."""
    if not compression:
        yield packed
        return
    try:
        with UNPACKERS[compression](packed) as stream:
            yield stream
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise DataError(
            f"damaged {compression} data ({error}); fetch or make the file again", file=name
        ) from error


def _open_zstd(packed: BinaryIO) -> Any:
    import pyarrow

    return pyarrow.CompressedInputStream(packed, "zstd")


UNPACKERS: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
