"""Files of named arrays in the safetensors format: written in pieces, read by memory mapping.

A file is the length of its header (8 bytes, little-endian), the header in JSON, padded with blanks,
and the arrays without gaps, those of wide numbers first, so that every number lies aligned.
"""

import hashlib
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.documents import parse_json
from lkge.data.files import as_run_error
from lkge.data.reading import open_regular
from lkge.errors import DamagedFile
from lkge.store.records import FileChecksum

NUMBERS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
DTYPES = {f"{kind[0].upper()}{8 * int(kind[1])}": np.dtype(f"<{kind}") for kind in NUMBERS}
DTYPES["BOOL"] = np.dtype(np.bool_)
CODES = {dtype: code for code, dtype in DTYPES.items()}

METADATA = "__metadata__"
ALIGNMENT = 64
PIECE = 1 << 22
"""Bytes of an array that are in memory at a time while it is written, approximately."""


@dataclass(frozen=True, eq=False)
class Patched:
    """A table like `base` (n, …) with some rows replaced and others appended; never materialised.

    rows      (u,) int64, ascending: rows of `base` that are replaced
    values    (u, …): by these
    appended  (k, …): rows behind the last one of `base`
    """

    base: NDArray[Any]
    rows: NDArray[np.int64]
    values: NDArray[Any]
    appended: NDArray[Any]

    def __post_init__(self) -> None:
        if not (
            self.values.shape == (len(self.rows), *self.base.shape[1:])
            and self.appended.shape[1:] == self.base.shape[1:]
            and self.values.dtype == self.appended.dtype == self.base.dtype
        ):
            raise ValueError("rows, values, appended rows and base do not fit together")
        if len(self.rows) and not (
            self.rows[0] >= 0 and self.rows[-1] < len(self.base) and (np.diff(self.rows) > 0).all()
        ):
            raise ValueError("replaced rows must be rows of the base, ascending, each once")

    @property
    def shape(self) -> tuple[int, ...]:
        """(n + k, …)."""
        return (len(self.base) + len(self.appended), *self.base.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the base."""
        return self.base.dtype

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows of the whole, ascending."""
        old = rows < len(self.base)
        last = self.appended[rows[~old] - len(self.base)]
        result = np.concatenate([taken(self.base, rows[old]), last])
        places = np.minimum(np.searchsorted(self.rows, rows), max(len(self.rows) - 1, 0))
        replaced = self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), np.bool_)
        result[replaced] = self.values[places[replaced]]
        return result


Array = NDArray[Any] | Patched
Arrays = Mapping[str, Array]


def taken(array: Array, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Some rows of an array, ascending. Of a mapped one, only a piece is in memory at a time."""
    if isinstance(array, Patched):
        return array.take(rows)
    result = np.empty((len(rows), *array.shape[1:]), array.dtype)
    for start, piece in _slices(array):
        first, last = np.searchsorted(rows, [start, start + len(piece)])
        if first < last:
            result[first:last] = piece[rows[first:last] - start]
            _release(piece)
    return result


def write_arrays(path: Path, arrays: Arrays) -> FileChecksum:
    """Write named arrays to a new file, piece by piece, and wait until it is on the disk."""
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    digest, size = hashlib.sha256(), 0
    with as_run_error(path), path.open("xb") as file:
        for piece in _file_pieces({name: arrays[name] for name in names}):
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return FileChecksum(digest.hexdigest(), size)


def checksum_of(path: Path) -> FileChecksum:
    """The checksum of a file; all of it is read."""
    with open_regular(path, follow=False) as file:
        return FileChecksum(hashlib.file_digest(file, "sha256").hexdigest(), file.tell())


def mapped(path: Path) -> dict[str, NDArray[Any]]:
    """The named arrays of a file, memory-mapped; they must not be changed."""
    try:
        with open_regular(path, follow=False) as file:
            content: NDArray[np.uint8] = np.asarray(np.memmap(file, dtype=np.uint8, mode="c"))
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise DamagedFile(f"{path}: damaged, it is empty; restore it") from error
    try:
        header, data = _parts(content)
        entries = {name: _entry(header[name]) for name in header if name != METADATA}
        spans = sorted((start, stop) for start, stop, *_ in entries.values())
        size = len(data)
        if any(one[1] != next_[0] for one, next_ in pairwise([(0, 0), *spans, (size, size)])):
            raise ValueError(f"its arrays do not fill its {size} bytes")
        return {
            name: data[start:stop].view(dtype).reshape(shape)
            for name, (start, stop, dtype, shape) in entries.items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path}: damaged, not a file of arrays: {error}; restore it") from error


def _parts(content: NDArray[np.uint8]) -> tuple[dict[str, Any], NDArray[np.uint8]]:
    """The header of a file, and the bytes of its arrays."""
    length = int.from_bytes(content[:8].tobytes(), "little")
    if 8 + length > len(content):
        raise ValueError(f"a header of {length} bytes in {len(content)}")
    header = parse_json(content[8 : 8 + length].tobytes())
    if not isinstance(header, dict):
        raise TypeError("the header is not a JSON object")
    return header, content[8 + length :]


def _entry(tree: Mapping[str, Any]) -> tuple[int, int, np.dtype[Any], tuple[int, ...]]:
    """Where the bytes of an array start and stop behind the header, its type and its shape."""
    start, stop = tree["data_offsets"]
    dtype, shape = DTYPES[tree["dtype"]], tuple(tree["shape"])
    if not all(type(number) is int and number >= 0 for number in (start, stop, *shape)):
        raise TypeError("offsets and shapes must be whole numbers")
    if stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"shape {shape} of {dtype} in {stop - start} bytes")
    return start, stop, dtype, shape


def _file_pieces(arrays: Arrays) -> Iterator[bytes]:
    """All bytes of a file, in order."""
    sizes = [math.prod(array.shape) * array.dtype.itemsize for array in arrays.values()]
    spans = pairwise(accumulate(sizes, initial=0))
    header = {}
    for (name, array), span in zip(arrays.items(), spans, strict=True):
        code = CODES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": span}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    yield len(text).to_bytes(8, "little") + text
    for array in arrays.values():
        little = array.dtype.newbyteorder("<")
        for rows in _row_pieces(array):
            yield rows.astype(little, copy=False).tobytes()


def _row_pieces(array: Array) -> Iterator[NDArray[Any]]:
    """An array in order, some rows at a time."""
    if isinstance(array, Patched):
        for start, rows in _slices(array.base):
            first, last = np.searchsorted(array.rows, [start, start + len(rows)])
            piece = rows.copy()
            piece[array.rows[first:last] - start] = array.values[first:last]
            yield piece
            _release(rows)
        yield from _row_pieces(array.appended)
        return
    for _, rows in _slices(np.atleast_1d(array)):
        yield rows
        _release(rows)


def _slices(table: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """(first row, rows) of a table in order, about PIECE bytes at a time."""
    step = max(1, PIECE // max(1, table[:1].nbytes))
    return ((start, table[start : start + step]) for start in range(0, len(table), step))


def _release(rows: NDArray[Any]) -> None:
    """Release the memory of rows of a mapped file; an access reads them again."""
    owner: Any = rows
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, mmap.mmap) and rows.nbytes:
        begin = np.frombuffer(owner, dtype=np.uint8).ctypes.data
        offset = rows.ctypes.data - begin
        start = offset - offset % mmap.PAGESIZE
        with suppress(OSError):
            owner.madvise(mmap.MADV_DONTNEED, start, offset + rows.nbytes - start)
