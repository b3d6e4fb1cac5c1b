"""Files of named arrays in the safetensors format, written in pieces; `array_files` reads them.

A file is the length of its header (8 bytes, little-endian), the header in JSON, padded with blanks,
and the arrays without gaps, those of wide numbers first, so that every number lies aligned. The
last array, `block_checksums`, has the CRC-32 of each block of 4096 bytes of the others.
"""

import hashlib
import json
import math
import mmap
import os
import zlib
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.files import as_run_error
from lkge.store.records import FileChecksum

NUMBERS = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
DTYPES = {f"{kind[0].upper()}{8 * int(kind[1])}": np.dtype(f"<{kind}") for kind in NUMBERS}
DTYPES["BOOL"] = np.dtype(np.bool_)
CODES = {dtype: code for code, dtype in DTYPES.items()}

ALIGNMENT = 64
CHECKSUMS = "block_checksums"
BLOCK = 4096
"""Bytes that have a checksum of their own."""
PIECE = 1 << 22
"""Bytes of an array that are in memory at a time while it is written, approximately."""


@dataclass(frozen=True, eq=False)
class Patched:
    """A table like `base` (n, …) with some rows replaced and others appended; never materialised.

    rows      (u,) int64, ascending: rows of `base` that are replaced
    values    (u, …): by these
    appended  (k, …): rows behind the last one of `base`
    """

    base: "Array"
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
        dtype: np.dtype[Any] = self.base.dtype
        return dtype

    def __len__(self) -> int:
        return self.shape[0]

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


def taken(table: Array, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Some rows of an array, ascending. Of a mapped one, only a piece is in memory at a time."""
    if isinstance(table, Patched):
        return table.take(rows)
    result = np.empty((len(rows), *table.shape[1:]), table.dtype)
    for start, piece in _slices(table):
        first, last = np.searchsorted(rows, [start, start + len(piece)])
        if first < last:
            result[first:last] = piece[rows[first:last] - start]
            release(piece)
    return result


def write_arrays(path: Path, arrays: Arrays, *, checksums: bool = True) -> FileChecksum:
    """Write named arrays to a new file, piece by piece, and wait until it is on the disk.

    The SHA-256 is that of the header and of the block checksums, so it covers every byte; a file
    without block checksums has none.
    """
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    ordered = {name: arrays[name] for name in names}
    head = _header(ordered, checksums)
    blocks, size = _BlockChecksums(), len(head)
    with as_run_error(path), path.open("xb") as file:
        file.write(head)
        for piece in _data_pieces(ordered):
            file.write(piece)
            size += len(piece)
            if checksums:
                blocks.add(piece)
        last = blocks.ended() if checksums else b""
        file.write(last)
        file.flush()
        os.fsync(file.fileno())
    return FileChecksum(hashlib.sha256(head + last).hexdigest(), size + len(last))


class _BlockChecksums:
    """The CRC-32 of each block of a stream, as bytes."""

    def __init__(self) -> None:
        self._open, self._done = b"", array("I")

    def add(self, piece: bytes) -> None:
        """The stream goes on."""
        first = -len(self._open) % BLOCK
        if len(piece) < first or (first == 0 and not self._open and len(piece) < BLOCK):
            self._open += piece
            return
        if first:
            self._done.append(zlib.crc32(self._open + piece[:first]))
        view, whole = memoryview(piece)[first:], (len(piece) - first) // BLOCK * BLOCK
        self._done.extend(zlib.crc32(view[at : at + BLOCK]) for at in range(0, whole, BLOCK))
        self._open = bytes(view[whole:])

    def ended(self) -> bytes:
        """The checksums; the last block may be shorter."""
        if self._open:
            self._done.append(zlib.crc32(self._open))
        return np.array(self._done, dtype="<u4").tobytes()


def _header(arrays: Arrays, checksums: bool) -> bytes:
    """The beginning of a file, up to the arrays."""
    sizes = [math.prod(table.shape) * table.dtype.itemsize for table in arrays.values()]
    spans = pairwise(accumulate(sizes, initial=0))
    header = {}
    for (name, table), span in zip(arrays.items(), spans, strict=True):
        code = CODES[table.dtype.newbyteorder("<")]
        header[name] = {"dtype": code, "shape": table.shape, "data_offsets": span}
    if checksums:
        size, blocks = sum(sizes), -(-sum(sizes) // BLOCK)
        span = (size, size + 4 * blocks)
        header[CHECKSUMS] = {"dtype": "U32", "shape": (blocks,), "data_offsets": span}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _data_pieces(arrays: Arrays) -> Iterator[bytes]:
    """The bytes of all arrays, in order."""
    for each in arrays.values():
        little = each.dtype.newbyteorder("<")
        for rows in _row_pieces(each):
            yield rows.astype(little, copy=False).tobytes()


def _row_pieces(table: Array) -> Iterator[NDArray[Any]]:
    """An array in order, some rows at a time."""
    if isinstance(table, Patched):
        start = 0
        for rows in _row_pieces(table.base):
            first, last = np.searchsorted(table.rows, [start, start + len(rows)])
            piece = rows.copy()
            piece[table.rows[first:last] - start] = table.values[first:last]
            start += len(rows)
            yield piece
        yield from _row_pieces(table.appended)
        return
    for _, rows in _slices(np.atleast_1d(table)):
        yield rows
        release(rows)


def _slices(table: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    """(first row, rows) of a table in order, about PIECE bytes at a time."""
    step = max(1, PIECE // max(1, table[:1].nbytes))
    return ((start, table[start : start + step]) for start in range(0, len(table), step))


def release(rows: NDArray[Any]) -> None:
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
