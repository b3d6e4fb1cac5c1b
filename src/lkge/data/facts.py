"""Files of facts by name: TSV, CSV, JSON Lines, Parquet and RDF; plain or compressed.

The suffix of the file selects the format (`formats.SUFFIXES`), or the name of a format does. A
compressed file has a second suffix: `.gz`, `.bz2`, `.xz` or `.zst`.
"""

import io
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from lkge.data import formats
from lkge.data.columns import KINDS, GivenColumns, chosen_columns
from lkge.data.files import as_data_error, write_bytes_atomically
from lkge.data.formats import NamedFacts as NamedFacts
from lkge.data.formats import Triple
from lkge.data.reading import Budget, open_regular, read_text_of_facts
from lkge.errors import DataError


def is_fact_file(name: str) -> bool:
    """Whether `read_facts` can read a file of that name."""
    return _suffixes(name)[0] in formats.SUFFIXES


def read_facts(
    source: Path | str | bytes | BinaryIO,
    name: str | None = None,
    *,
    columns: GivenColumns = None,
    format: str | None = None,
) -> NamedFacts:
    """The distinct facts of a file, or of bytes or a binary stream with the file name `name`.

    `columns` are those of a table, such as `subject=a,relation=b,object=c`; `format` is such as
    `csv` or `ttl.gz`, by default that of the name.
    """
    if name is None:
        if not isinstance(source, (str, Path)):
            raise ValueError("bytes and streams need a name, whose suffix tells the format")
        name = str(source)
    suffix, compression = _suffixes(f"facts.{format.lstrip('.')}" if format else name)
    chosen = chosen_columns(columns)
    if suffix not in formats.SUFFIXES:
        raise _unknown_format(suffix, format, name)
    try:
        data = _plain_bytes(source, compression, name)
        if suffix in formats.TABLES:
            facts = formats.TABLES[suffix](data, name, chosen)
        elif chosen is not None:
            raise DataError("RDF has no columns; leave --columns out", file=name)
        else:
            facts = formats.PARSERS[suffix](data, name)
        return complete(facts)
    except MemoryError:
        raise Budget(name).error() from None


def complete(facts: NamedFacts) -> NamedFacts:
    """The facts, each once; a DataError if one has an empty name."""
    _require_names(facts)
    return _without_repeats(facts)


def _unknown_format(suffix: str, format: str | None, name: str) -> DataError:
    plain, packed = ", ".join(formats.SUFFIXES), ", ".join(formats.UNPACKERS)
    known = f"known are {plain}, each plain or with {packed}"
    if format:
        return DataError(f"unknown format {format!r}; {known}", file=name)
    return DataError(f"unknown suffix {suffix!r}; {known}; or say --format", file=name)


def write_facts(path: Path | str, facts: Iterable[Triple]) -> None:
    """Write facts atomically as TSV, CSV or Parquet, plain or `.gz`, `.bz2`, `.xz`."""
    path = Path(path)
    suffix, compression = _suffixes(path.name)
    if suffix not in formats.FORMATTERS or compression not in formats.PACKERS:
        plain, packed = ", ".join(formats.FORMATTERS), ", ".join(filter(None, formats.PACKERS))
        known = f"{plain}, plain or with {packed}"
        raise DataError(f"cannot be written in this format; choose one of {known}", file=path)
    triples = list(facts)
    subjects, relations, objects = ([fact[column] for fact in triples] for column in range(3))
    lines = range(1, len(triples) + 1)
    _require_names(NamedFacts(str(path), subjects, relations, objects, lines))
    try:
        data = formats.FORMATTERS[suffix](triples, str(path))
    except UnicodeEncodeError as error:
        raise DataError(f"a name is not valid Unicode: {error.reason}", file=path) from error
    with as_data_error(path):
        write_bytes_atomically(path, formats.PACKERS[compression](data))


def _suffixes(name: str) -> tuple[str, str]:
    """(format, compression) in lower case; the compression of a plain file is empty."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes[-2:]]
    compression = suffixes.pop() if suffixes and suffixes[-1] in formats.UNPACKERS else ""
    return (suffixes[-1] if suffixes else ""), compression


def bytes_of(source: Path | str | bytes | BinaryIO, name: str) -> bytes:
    """The content of a source; errors give `name`."""
    return _plain_bytes(source, "", name)


def _plain_bytes(source: Path | str | bytes | BinaryIO, compression: str, name: str) -> bytes:
    """The decompressed content of a source, read in pieces within the limit of memory."""
    try:
        if isinstance(source, bytes):
            file: BinaryIO = io.BytesIO(source)
        else:
            file = open_regular(source) if isinstance(source, (str, Path)) else source
        closing = nullcontext() if file is source else file
        with closing, formats.unpacking(file, compression, name) as plain:
            return read_text_of_facts(plain, name)
    except FileNotFoundError:
        raise DataError("there is no such file; check the path", file=name) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=name) from error


def _require_names(facts: NamedFacts) -> None:
    encoded = facts.encoded
    if all(map(str.strip, encoded.entities)) and all(map(str.strip, encoded.relations)):
        return
    columns = (facts.subjects, facts.relations, facts.objects)
    for kind, names in zip(KINDS, columns, strict=True):
        if not all(map(str.strip, names)):
            position = next(at for at, given in enumerate(names) if not given.strip())
            raise DataError(
                f"the {kind} has an empty name; fill it in or remove the fact",
                file=facts.source,
                line=facts.lines[position] if facts.lines else None,
            )


def _without_repeats(facts: NamedFacts) -> NamedFacts:
    encoded = facts.encoded
    first = encoded.is_first()
    if first.all():
        return facts
    again = f"{facts.place_of(int(first.argmin()))}: a fact stands here for the second time"
    warning = f"{again}; repeats in this file, left out: {int((~first).sum())}"
    lines = facts.lines and list(compress(facts.lines, first))
    warnings = (*facts.warnings, warning)
    subjects, relations, objects = encoded.at(first).columns
    return replace(
        facts,
        subjects=subjects,
        relations=relations,
        objects=objects,
        lines=lines,
        warnings=warnings,
    )
