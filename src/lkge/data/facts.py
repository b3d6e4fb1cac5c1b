"""Files of facts by name: TSV, CSV, N-Triples, Turtle, Parquet; plain or compressed.

The suffix of the file selects the format: `.txt`, `.tsv`, `.csv`, `.nt`, `.ttl`, `.parquet`. A
compressed file has a second suffix: `.gz`, `.bz2`, `.xz` or `.zst`.
"""

import io
from collections.abc import Iterable
from contextlib import nullcontext
from itertools import compress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from lkge.data import formats
from lkge.data.files import as_data_error, write_bytes_atomically
from lkge.data.formats import NamedFacts as NamedFacts
from lkge.data.formats import Triple
from lkge.data.reading import Budget, open_regular, read_text_of_facts
from lkge.errors import DataError


def is_fact_file(name: str) -> bool:
    """Whether `read_facts` can read a file of that name."""
    return _suffixes(name)[0] in formats.PARSERS


def read_facts(source: Path | str | bytes | BinaryIO, name: str | None = None) -> NamedFacts:
    """The distinct facts of a file, or of bytes or a binary stream with the file name `name`."""
    if name is None:
        if not isinstance(source, (str, Path)):
            raise ValueError("bytes and streams need a name, whose suffix tells the format")
        name = str(source)
    suffix, compression = _suffixes(name)
    if suffix not in formats.PARSERS:
        plain, packed = ", ".join(formats.PARSERS), ", ".join(formats.UNPACKERS)
        known = f"{plain}, each plain or with {packed}"
        raise DataError(f"unknown suffix {suffix!r}; known are {known}", file=name)
    try:
        facts = formats.PARSERS[suffix](_plain_bytes(source, compression, name), name)
        _require_names(facts)
        return _without_repeats(facts)
    except MemoryError:
        raise Budget(name).error() from None


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
    for kind, names in zip(formats.KINDS, columns, strict=True):
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
    return NamedFacts(facts.source, *encoded.at(first).columns, lines, warnings, facts.labels)
