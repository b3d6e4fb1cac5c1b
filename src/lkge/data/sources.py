"""What facts can be brought as: files and folders, streams, triples, and objects of libraries."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from lkge.data.columns import GivenColumns, chosen_columns
from lkge.data.fact_list import FactList, checked_triple
from lkge.data.facts import complete, is_fact_file, read_facts
from lkge.data.named_facts import NamedFacts
from lkge.data.objects import facts_of_object, facts_of_statements, is_statement
from lkge.errors import DataError, DataWarning

Source = Any
"""A file or folder of facts, or a list of them; bytes or a binary stream; triples of names; a table
of pandas, polars or pyarrow; a graph of rdflib; a directed graph of networkx."""
MAX_FILES = 100_000
"""The maximal number of files in a folder."""
STREAM = "standard input"


def read_source(
    source: Source, columns: GivenColumns = None, format: str | None = None
) -> list[NamedFacts]:
    """The facts of each part of a source: of each file, or of the whole object."""
    if _is_path(source):
        return list(_read_path(Path(source), columns, format))
    if isinstance(source, (list, tuple)) and source and _is_part(source[0]):
        return [each for path in source for each in read_source(path, columns, format)]
    if isinstance(source, NamedFacts):
        return [source]
    if isinstance(source, bytes) or hasattr(source, "read"):
        if format is None:
            raise DataError("say in which format it is, with --format", file=STREAM)
        name = "the file" if isinstance(source, bytes) else STREAM
        return [read_facts(source, name, columns=columns, format=format)]
    if not isinstance(source, FactList):
        found = facts_of_object(source, chosen_columns(columns))
        if found is not None:
            return [complete(found)]
        if not isinstance(source, Iterable):
            raise DataError(f"{source!r} has no facts; give triples, files, or a table")
        triples = [checked_triple(fact) for fact in source]
        if triples and is_statement(triples[0]):
            return [complete(facts_of_statements(triples, "facts"))]
        source = FactList.of(triples)
    subjects, relations, objects = source.columns
    return [NamedFacts("facts", subjects, relations, objects, None)]


def _is_path(source: Source) -> bool:
    return isinstance(source, (str, Path))


def joined(source: Source, columns: GivenColumns = None, format: str | None = None) -> FactList:
    """All facts of a source, each once; what was left out is a DataWarning."""
    parts = read_source(source, columns, format)
    for text in (text for part in parts for text in part.warnings):
        warnings.warn(text, DataWarning, stacklevel=3)
    return FactList.joined(parts)


def _is_part(source: Source) -> bool:
    return _is_path(source) or isinstance(source, NamedFacts)


def _read_path(path: Path, columns: GivenColumns, format: str | None) -> Iterator[NamedFacts]:
    """The facts of a file, or of all files of facts in a folder and those in it."""
    if not path.is_dir():
        yield read_facts(path, columns=columns, format=format)
        return
    try:
        files = list(islice(_files_in(path), MAX_FILES + 1))
    except OSError as error:
        place = error.filename or path
        raise DataError(f"cannot be read: {error.strerror}", file=place) from error
    if len(files) > MAX_FILES:
        raise DataError(f"has more than {MAX_FILES:,} files; name some of them", file=path)
    chosen = [file for file in files if format or is_fact_file(file.name)]
    others = [file for file in files if not (format or is_fact_file(file.name))]
    if not chosen:
        raise DataError("holds no file of facts; name another folder, or --format", file=path)
    notes = [f"{path}: left out {len(others)} other files, such as {each}" for each in others[:1]]
    for file in chosen:
        facts = read_facts(file, columns=columns, format=format)
        yield replace(facts, warnings=(*notes, *facts.warnings))
        notes = []


def _files_in(folder: Path) -> Iterator[Path]:
    """The files in a folder and its folders, in order; hidden ones are left out."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files_in(entry)
        elif not entry.is_dir():
            yield entry
