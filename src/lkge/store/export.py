"""The rows of entities and relations, as they answer, with their names, for other programs.

An export is a folder that appears in one act. Relations come with their inverses, `name⁻¹`, which
have rows of their own. Parameters are written some rows at a time.

    parquet      entities.parquet, relations.parquet: columns `name` and `row`
    npy          entities.npy, relations.npy: (n, d) float32; entities.json, relations.json: names
    tsv          entities.tsv, relations.tsv: a name and d numbers a line
    word2vec     entities.txt, relations.txt: the text format; white space in names becomes `_`
    safetensors  rows.safetensors: `entities`, `relations`; entities.json, relations.json: names
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from lkge.data.files import as_run_error, make_folders, unfinished_folder, with_remedies
from lkge.errors import DataError, RunError, SettingsError
from lkge.store.arrays import write_arrays
from lkge.store.reader import Reader

PIECE = 4096
"""Rows that are texts or columns in memory at a time."""
NUMBER = "%.9g"
"""So many digits give a float32 back bit for bit."""


@dataclass(frozen=True)
class Table:
    """What is exported of one kind: n names and their rows, (n, d) float32."""

    kind: str
    names: Iterable[str]
    rows: NDArray[np.float32]

    def pieces(self) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
        """Names and rows in order, some at a time."""
        names = iter(self.names)
        for start in range(0, len(self.rows), PIECE):
            rows = self.rows[start : start + PIECE]
            yield list(islice(names, len(rows))), rows


def export(reader: Reader, folder: Path | str, format: str) -> list[Path]:
    """Write the rows of a version into a new folder; its files."""
    folder = Path(folder)
    if format not in WRITERS:
        known = ", ".join(WRITERS)
        raise SettingsError(f"there is no format {format!r} to export in; known are: {known}")
    with with_remedies(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder}: exists already; name another folder")
    tables = tables_of(reader)
    with as_run_error(folder):
        make_folders(folder.parent)
        with unfinished_folder(folder) as place:
            WRITERS[format](place, tables)
        return sorted(folder.iterdir())


def tables_of(reader: Reader) -> list[Table]:
    """The entities of a version that are not removed, and its relations with their inverses."""
    tables, names = reader.predictor.tables(), reader.names
    if tables is None:
        raise DataError(
            f"an entity has no row of its own under the method {reader.config.method.name!r}; "
            "export a graph that another method learns"
        )
    named, (rows, relation_rows) = names.entity_table, tables
    if len(removed := reader.removed):
        rows = np.delete(rows, removed, axis=0)
    relations = [names.relation_name(number) for number in range(2 * names.num_relations)]
    return [
        Table("entities", list(filter(None, named)) if len(removed) else named, rows),
        Table("relations", relations, relation_rows),
    ]


def _write_parquet(folder: Path, tables: Sequence[Table]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table in tables:
        width = table.rows.shape[1]
        schema = pa.schema([("name", pa.string()), ("row", pa.list_(pa.float32(), width))])
        with (
            _new_file(folder / f"{table.kind}.parquet") as file,
            pq.ParquetWriter(file, schema) as writer,
        ):
            for names, rows in table.pieces():
                row = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), width)
                writer.write_table(pa.table([pa.array(names, pa.string()), row], schema))


def _write_npy(folder: Path, tables: Sequence[Table]) -> None:
    for table in tables:
        with _new_file(folder / f"{table.kind}.npy") as file:
            np.save(file, table.rows, allow_pickle=False)
    _write_names(folder, tables)


def _write_tsv(folder: Path, tables: Sequence[Table]) -> None:
    for table in tables:
        with _new_file(folder / f"{table.kind}.tsv") as file:
            _write_lines(file, table, "\t", _one_field)


def _write_word2vec(folder: Path, tables: Sequence[Table]) -> None:
    for table in tables:
        seen: set[str] = set()
        for word in map(_word, table.names):
            if word in seen:
                raise DataError(f"two names would be the word {word!r}; export as parquet")
            seen.add(word)
        with _new_file(folder / f"{table.kind}.txt") as file:
            file.write(f"{len(table.rows)} {table.rows.shape[1]}\n".encode())
            _write_lines(file, table, " ", _word)


def _write_safetensors(folder: Path, tables: Sequence[Table]) -> None:
    rows = {table.kind: table.rows for table in tables}
    write_arrays(folder / "rows.safetensors", rows, checksums=False)
    _write_names(folder, tables)


WRITERS: Mapping[str, Callable[[Path, Sequence[Table]], None]] = {
    "parquet": _write_parquet,
    "npy": _write_npy,
    "tsv": _write_tsv,
    "word2vec": _write_word2vec,
    "safetensors": _write_safetensors,
}


def _write_lines(
    file: BinaryIO, table: Table, separator: str, spelled: Callable[[str], str]
) -> None:
    """A line for each row: the name as it is spelled there, and the numbers."""
    numbers = separator.join([NUMBER] * table.rows.shape[1])
    for names, rows in table.pieces():
        lines = (
            f"{spelled(name)}{separator}{numbers % tuple(row)}\n"
            for name, row in zip(names, rows.tolist(), strict=True)
        )
        file.write("".join(lines).encode())


def _write_names(folder: Path, tables: Sequence[Table]) -> None:
    """The names of each table as a JSON list, in the order of the rows."""
    for table in tables:
        with _new_file(folder / f"{table.kind}.json") as file:
            names = (json.dumps(name, ensure_ascii=False) for name in table.names)
            file.write(f"[{next(names, '')}".encode())
            file.writelines(f",\n{name}".encode() for name in names)
            file.write(b"]\n")


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which is on the disk when the block ends."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _one_field(name: str) -> str:
    if re.search(r"[\t\r\n]", name):
        raise DataError(f"the name {name!r} has a tab or line break; export as parquet")
    return name


def _word(name: str) -> str:
    return re.sub(r"\s", "_", name)
