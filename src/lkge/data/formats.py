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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import compress
from typing import Any, BinaryIO

from lkge.data.columns import KINDS, Chosen, may_be_header
from lkge.data.fact_list import Triple as Triple
from lkge.data.named_facts import NamedFacts as NamedFacts
from lkge.data.named_facts import left_out_warning
from lkge.data.reading import Budget, Stream
from lkge.data.tables import parse_csv, parse_json_lines, parse_parquet, parse_tsv
from lkge.data.xml_check import require_sound_xml
from lkge.errors import DataError

BRACKETS = {b"(": 2, b"[": 2}
HELD = {"TURTLE": BRACKETS, "TRIG": BRACKETS, "JSON_LD": {b'":': 1}}
"""Format → what its parser may hold in memory until the end, each in facts: open brackets, and the
terms of a context."""
OF_TERMS = {"Literal": "literals", "BlankNode": "blank nodes", "Triple": "quoted facts"}
"""Terms that are no entities → how their facts are counted when they are left out."""
REMEDIES = {
    "LoadDocumentCallback": "put the @context into the file, or write N-Quads",
    "No scheme found": "write whole IRIs, or give the file a base IRI (@base, xml:base)",
}
"""Words of an error of the parser → what to do."""


def _parse_rdf(data: bytes, name: str, form: str, lines: Iterable[int] | None = None) -> NamedFacts:
    """The statements between IRIs; `lines` are the numbers of the lines of all statements."""
    import pyoxigraph

    format_ = getattr(pyoxigraph.RdfFormat, form)
    columns: tuple[list[str], ...] = [], [], []
    subjects, relations, objects = columns
    kept, left_out, budget = list[bool](), Counter[str](), Budget(name)
    for mark, size in HELD.get(form, {}).items():
        budget.add(0, facts=size * data.count(mark))
    try:
        for statement in pyoxigraph.parse(data.removeprefix(codecs.BOM_UTF8), format=format_):
            subject, object_ = statement.subject, statement.object
            odd = OF_TERMS.get(type(object_).__name__) or OF_TERMS.get(type(subject).__name__)
            kept.append(odd is None)
            if odd is not None:
                left_out[odd] += 1
                continue
            subjects.append(subject.value)
            relations.append(statement.predicate.value)
            objects.append(object_.value)
            budget.add(sum(len(names[-1]) for names in columns), facts=1)
    except SyntaxError as error:
        found = (remedy for words, remedy in REMEDIES.items() if words in str(error.msg))
        complaint = f"{error.msg}; {next(found, 'mend it')}"
        raise DataError(complaint, file=name, line=error.lineno) from error
    numbers = None if lines is None else list(compress(lines, kept))
    warnings = left_out_warning(name, left_out)
    return NamedFacts(name, subjects, relations, objects, numbers, warnings)


def _statement_lines(data: bytes) -> Iterator[int]:
    """The numbers of the lines of N-Triples or N-Quads data that have a statement."""
    for number, line in enumerate(data.splitlines(), start=1):
        content = line.removeprefix(codecs.BOM_UTF8).strip()
        if content and not content.startswith(b"#"):
            yield number


def parse_n_triples(data: bytes, name: str) -> NamedFacts:
    """Parse N-Triples: one statement a line."""
    return _parse_rdf(data, name, "N_TRIPLES", _statement_lines(data))


def parse_n_quads(data: bytes, name: str) -> NamedFacts:
    """Parse N-Quads: one statement a line; the names of graphs are left out."""
    return _parse_rdf(data, name, "N_QUADS", _statement_lines(data))


def parse_rdf_xml(data: bytes, name: str) -> NamedFacts:
    """Parse RDF/XML; statements have no line numbers."""
    if data.strip():
        require_sound_xml(data, name)
    return _parse_rdf(data, name, "RDF_XML")


parse_turtle = partial(_parse_rdf, form="TURTLE")
parse_trig = partial(_parse_rdf, form="TRIG")
parse_json_ld = partial(_parse_rdf, form="JSON_LD")


def format_tsv(facts: Sequence[Triple], name: str) -> bytes:
    """The inverse of `parse_tsv`, for names without tabs and line breaks. A first fact that reads
    like a header gets one above it."""
    for fact in facts:
        if any(mark in field for field in fact for mark in "\t\r\n"):
            raise DataError(f"{fact} has a tab or line break; write CSV or Parquet", file=name)
    lines = [KINDS, *facts] if facts and may_be_header(facts[0]) else facts
    return _encoded("".join("\t".join(line) + "\n" for line in lines))


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


TABLES: dict[str, Callable[[bytes, str, Chosen | None], NamedFacts]] = {
    ".txt": parse_tsv,
    ".tsv": parse_tsv,
    ".csv": parse_csv,
    ".jsonl": parse_json_lines,
    ".ndjson": parse_json_lines,
    ".parquet": parse_parquet,
}
"""Formats with columns, which can be chosen."""

PARSERS: dict[str, Callable[[bytes, str], NamedFacts]] = {
    ".nt": parse_n_triples,
    ".nq": parse_n_quads,
    ".ttl": parse_turtle,
    ".trig": parse_trig,
    ".rdf": parse_rdf_xml,
    ".owl": parse_rdf_xml,
    ".jsonld": parse_json_ld,
}
"""RDF: statements, without columns."""

SUFFIXES = (*TABLES, *PARSERS)

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
