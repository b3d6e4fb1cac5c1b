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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any, BinaryIO

import numpy as np

from lkge.data.fact_list import Column, FactList, in_order_of_appearance
from lkge.data.fact_list import Triple as Triple
from lkge.data.reading import Budget, Stream
from lkge.errors import DataError

KINDS = ("subject", "relation", "object")
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
LARGE_TSV = 1 << 20
"""From so many bytes on TSV is parsed by columns: loading pyarrow takes a tenth of a second."""


@dataclass(frozen=True)
class NamedFacts:
    """The facts of one file as parallel columns, in the order of the file. `lines` are their line
    numbers (row numbers from 1 in Parquet), or None if the format, such as Turtle, has no line for
    each fact. `labels` are those of rdfs:label, by name."""

    source: str
    subjects: Sequence[str]
    relations: Sequence[str]
    objects: Sequence[str]
    lines: Sequence[int] | None
    warnings: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

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


def parse_tsv(data: bytes, name: str) -> NamedFacts:
    """Parse TSV: three names a line; blank lines are skipped."""
    large = len(data) >= LARGE_TSV
    return (parse_plain_tsv(data, name) if large else None) or parse_tsv_by_line(data, name)


def parse_plain_tsv(data: bytes, name: str) -> NamedFacts | None:
    """Parse TSV by columns. None if there is anything but lines of three names: `parse_tsv_by_line`
    reads the rest, and has the errors."""
    import pyarrow.csv

    text = data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
    blank = not text or text.startswith(b"\n") or b"\n\n" in text
    if blank or b"\r" in text or text.startswith(codecs.BOM_UTF8):
        return None
    names, string = list(KINDS), pyarrow.string()
    try:
        table = pyarrow.csv.read_csv(
            pyarrow.BufferReader(text),
            pyarrow.csv.ReadOptions(column_names=names),
            pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, string), strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowException:
        return None
    subjects, objects = (table[kind].chunks for kind in KINDS[::2])
    ends = pyarrow.chunked_array([*subjects, *objects], string).combine_chunks()
    return _of_arrow(name, ends.dictionary_encode(), table["relation"].combine_chunks())


def _of_arrow(name: str, ends: Any, relations: Any) -> NamedFacts:
    """Facts from arrays of pyarrow: first all subjects, then all objects, dictionary-encoded."""
    between = relations.dictionary_encode()
    subjects, objects = np.split(ends.indices.to_numpy(), 2)
    subjects, objects, entities = in_order_of_appearance(
        subjects, objects, ends.dictionary.to_pylist()
    )
    kinds = Column(between.dictionary.to_pylist(), between.indices.to_numpy())
    columns = Column(entities, subjects), kinds, Column(entities, objects)
    return NamedFacts(name, *columns, range(1, len(subjects) + 1))


def parse_tsv_by_line(data: bytes, name: str) -> NamedFacts:
    """`parse_tsv` line by line."""
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
    """The statements between IRIs, and the labels; `lines` are the numbers of the lines of all
    statements."""
    import pyoxigraph

    form, iri = pyoxigraph.RdfFormat.from_extension(extension), pyoxigraph.NamedNode
    columns: tuple[list[str], ...] = [], [], []
    subjects, relations, objects = columns
    kept, budget, labels = list[bool](), Budget(name), dict[str, Any]()
    try:
        for statement in pyoxigraph.parse(data.removeprefix(codecs.BOM_UTF8), format=form):
            subject, object_ = statement.subject, statement.object
            kept.append(isinstance(subject, iri) and isinstance(object_, iri))
            if kept[-1]:
                subjects.append(subject.value)
                relations.append(statement.predicate.value)
                objects.append(object_.value)
                budget.add(sum(len(names[-1]) for names in columns), facts=1)
            elif _is_label(statement):
                _keep_label(labels, subject.value, object_, budget)
    except SyntaxError as error:
        raise DataError(f"{error.msg}; mend it", file=name, line=error.lineno) from error
    left_out = kept.count(False) - sum(count for _, count in labels.values())
    warning = f"{name}: left out {left_out} facts with literals or blank nodes"
    numbers = None if lines is None else list(compress(lines, kept))
    warnings = (warning,) if left_out else ()
    best = {subject: label.value for subject, (label, _) in labels.items()}
    return NamedFacts(name, subjects, relations, objects, numbers, warnings, best)


def _keep_label(labels: dict[str, Any], name: str, label: Any, budget: Budget) -> None:
    """Keep the first label without a language or in English, else the first one; and how many
    there were."""
    before, count = labels.get(name, (label, 0))
    better = _is_plain(label) and not _is_plain(before)
    labels[name] = (label if better else before, count + 1)
    budget.add(len(label.value) + len(name))


def _is_label(statement: Any) -> bool:
    """Whether a statement is the label of an IRI."""
    import pyoxigraph

    named = isinstance(statement.subject, pyoxigraph.NamedNode)
    text = isinstance(statement.object, pyoxigraph.Literal)
    return named and text and statement.predicate.value == LABEL


def _is_plain(label: Any) -> bool:
    return (label.language or "en").lower().partition("-")[0] == "en"


def _statement_lines(data: bytes) -> Iterator[int]:
    """The numbers of the lines of N-Triples data that have a statement."""
    for number, line in enumerate(data.splitlines(), start=1):
        content = line.removeprefix(codecs.BOM_UTF8).strip()
        if content and not content.startswith(b"#"):
            yield number


PARQUET_ROWS = 1 << 16
"""Rows that are read at a time."""
_COLUMN_NAMES = (("subject", "head", "s"), ("relation", "predicate", "p"), ("object", "tail", "o"))


def parse_parquet(data: bytes, name: str) -> NamedFacts:
    """Parse Parquet: columns with known names (`_COLUMN_NAMES`), else the first three of text."""
    import pyarrow.parquet

    columns: tuple[list[str], ...] = [], [], []
    budget = Budget(name)
    try:
        source = pyarrow.BufferReader(data)
        schema = pyarrow.parquet.read_schema(source)
        chosen = _fact_columns({field.name: str(field.type) for field in schema}, name)
        file = pyarrow.parquet.ParquetFile(source, read_dictionary=chosen)
        for batch in file.iter_batches(PARQUET_ROWS, columns=chosen):
            budget.add(0, facts=len(batch))
            for names, column in zip(columns, map(batch.column, chosen), strict=True):
                names += _texts(column, budget)
    except MemoryError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, LookupError) as error:
        raise DataError(f"cannot be read as Parquet ({error}); make it anew", file=name) from error
    subjects, relations, objects = columns
    return NamedFacts(name, subjects, relations, objects, range(1, len(subjects) + 1))


def _texts(column: Any, budget: Budget) -> list[str]:
    """A column as names; equal names are one object, and null is empty."""
    coded = column if hasattr(column, "dictionary") else column.cast("str").dictionary_encode()
    budget.add(coded.dictionary.nbytes)
    names = [*coded.dictionary.cast("str").fill_null("").to_pylist(), ""]
    return [names[at] for at in coded.indices.fill_null(len(names) - 1).to_pylist()]


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
