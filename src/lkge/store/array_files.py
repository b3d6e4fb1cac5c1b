"""Reading a file of arrays: memory-mapped, each block verified when asked for."""

import hashlib
import math
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.documents import parse_json
from lkge.data.files import is_passing, reason_of
from lkge.data.reading import open_regular
from lkge.errors import DamagedFile
from lkge.store.arrays import BLOCK, CHECKSUMS, DTYPES, release
from lkge.store.records import FileChecksum

METADATA = "__metadata__"
REMEDY = "`lkge verify` finds all damage"
AT_ONCE = 1024
"""Blocks whose memory is released together when all of a file is verified."""


class ArrayFile:
    """A file of named arrays, mapped; `arrays` must not be changed.

    With the checksum that is `expected`, header and block checksums are verified at once, and the
    blocks by `verify` and `verify_rows`. Files of `old` formats have no block checksums: their
    checksum is that of the whole file, which only `verify` reads.
    """

    def __init__(
        self, path: Path, expected: FileChecksum | None = None, *, old: bool = False
    ) -> None:
        self.path, self._expected, self._is_whole = path, expected, False
        try:
            with open_regular(path, follow=False) as file:
                content: NDArray[np.uint8] = np.asarray(np.memmap(file, dtype=np.uint8, mode="c"))
        except OSError as error:
            if is_passing(error):
                raise
            raise DamagedFile(f"{path}: cannot be read: {reason_of(error)}") from error
        except ValueError as error:
            raise DamagedFile(f"{path}: damaged, it is empty; restore it") from error
        if expected and len(content) != expected.bytes:
            wrong = "truncated" if len(content) < expected.bytes else "too long"
            size = f"{len(content)} of {expected.bytes} bytes"
            raise DamagedFile(f"{path}: damaged, {wrong}: {size}; {REMEDY}")
        try:
            self._read(content)
            if expected and self.has_checksums == old:
                raise ValueError("block checksums are missing" if not old else "block checksums")
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DamagedFile(
                f"{path}: damaged, not a file of arrays: {error}; restore it"
            ) from error

    def _read(self, content: NDArray[np.uint8]) -> None:
        header, data = _parts(content)
        entries = {name: _entry(header[name]) for name in header if name != METADATA}
        spans = sorted((start, stop) for start, stop, *_ in entries.values())
        size = len(data)
        if any(one[1] != next_[0] for one, next_ in pairwise([(0, 0), *spans, (size, size)])):
            raise ValueError(f"its arrays do not fill its {size} bytes")
        start, stop, *_ = entries.pop(CHECKSUMS, (size, size))
        self._checksums = np.frombuffer(data[start:stop].tobytes(), "<u4")
        self.has_checksums = CHECKSUMS in header
        self.offset = len(content) - size
        """Where the arrays begin."""
        if self.has_checksums:
            head = content[: self.offset].tobytes() + data[start:stop].tobytes()
            if self._expected and hashlib.sha256(head).hexdigest() != self._expected.sha256:
                raise ValueError("its digest differs")
            if len(self._checksums) != -(-start // BLOCK) or stop != size:
                raise ValueError("its block checksums do not fit")
        self._data = data[:start]
        self._verified = np.zeros(len(self._checksums), np.bool_)
        self._starts = {name: entry[0] for name, entry in entries.items()}
        self.arrays: dict[str, NDArray[Any]] = {
            name: data[first:last].view(dtype).reshape(shape)
            for name, (first, last, dtype, shape) in entries.items()
        }

    def place(self, name: str) -> int:
        """Where in the file an array begins."""
        return self.offset + self._starts[name]

    def verify(self) -> None:
        """Read all of it; DamagedFile if a byte is not as it was written."""
        if self.has_checksums:
            for start in range(0, len(self._checksums), AT_ONCE):
                stop = min(start + AT_ONCE, len(self._checksums))
                self._verify_blocks(np.arange(start, stop))
                release(self._data[start * BLOCK : stop * BLOCK])
        elif self._expected:
            with self.path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self._expected.sha256:
                    raise DamagedFile(f"{self.path}: damaged, its digest differs; {REMEDY}")
        self._is_whole = True

    def verify_once(self) -> None:
        """`verify`, unless it was called before."""
        if not self._is_whole:
            self.verify()

    def verify_rows(self, name: str, rows: NDArray[np.integer]) -> None:
        """The same for the blocks of some rows of an array, each once."""
        table = self.arrays[name]
        if not self.has_checksums or not len(rows) or not table.nbytes:
            return
        width = table[:1].nbytes
        first = self._starts[name] + rows.astype(np.int64) * width
        blocks = first // BLOCK + np.arange((width - 1) // BLOCK + 2)[:, None]
        blocks = np.unique(np.minimum(blocks, (first + width - 1) // BLOCK))
        self._verify_blocks(blocks[~self._verified[blocks]])

    def verify_array(self, name: str) -> None:
        """The same for all of an array."""
        start, size = self._starts[name], self.arrays[name].nbytes
        if self.has_checksums and size:
            self._verify_blocks(np.arange(start // BLOCK, (start + size - 1) // BLOCK + 1))

    def _verify_blocks(self, blocks: NDArray[np.int64]) -> None:
        view = memoryview(self._data)  # type: ignore[arg-type]
        for block in blocks.tolist():
            part = view[block * BLOCK : (block + 1) * BLOCK]
            if zlib.crc32(part) != self._checksums[block]:
                where = self.offset + block * BLOCK
                raise DamagedFile(
                    f"{self.path}: damaged, its digest differs at byte {where:,}; {REMEDY}"
                )
        self._verified[blocks] = True


def mapped(path: Path) -> dict[str, NDArray[Any]]:
    """The named arrays of a file, memory-mapped; they must not be changed."""
    return ArrayFile(path).arrays


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
