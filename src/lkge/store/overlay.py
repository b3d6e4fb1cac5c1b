"""Tables as a base file and delta files: mapped, with the changed rows written over the mapping.

A delta has, for an array by entity of the base, `NAME@rows` (u,) int64, ascending, the rows that
are replaced, `NAME@values` (u, …), and `NAME@appended` (k, …), rows behind the last one. Any other
array of a delta replaces the array of that name.

The mapping is private: the rows are written over copies of its pages, and the file stays as it is.
So every consumer has one contiguous array.
"""

import ctypes
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.names import require_fit
from lkge.errors import DamagedFile
from lkge.store.array_files import ArrayFile
from lkge.store.arrays import Array, Patched
from lkge.store.subgraph import is_by_entity

ROWS, VALUES, APPENDED = "@rows", "@values", "@appended"

Named = Mapping[str, NDArray[Any]]


def table_delta(before: Named, after: Mapping[str, Array]) -> dict[str, NDArray[Any]] | None:
    """What differs, as the arrays of a delta; None if a delta cannot say it, and all is written."""
    if before.keys() != after.keys():
        return None
    delta: dict[str, NDArray[Any]] = {}
    for name, array in after.items():
        if isinstance(array, Patched):
            if array.base is not before[name]:
                return None
            if len(array.rows) or len(array.appended):
                parts = {ROWS: array.rows, VALUES: array.values, APPENDED: array.appended}
                delta |= {name + suffix: part for suffix, part in parts.items()}
        elif not _same_bytes(before[name], array):
            if is_by_entity(name):
                return None
            delta[name] = array
    return delta


def overlaid(base: ArrayFile, deltas: Sequence[Named]) -> dict[str, NDArray[Any]]:
    """The arrays of a base file after its deltas, in order."""
    try:
        arrays = dict(base.arrays)
        for name in base.arrays:
            replaced = [each[name] for each in deltas if name in each]
            parts = [each for each in deltas if name + ROWS in each]
            require_fit(not (replaced and parts), f"{name} is replaced and patched")
            if replaced:
                arrays[name] = replaced[-1]
            elif parts:
                arrays[name] = _patched(base, name, parts)
        return arrays
    except (KeyError, IndexError, ValueError) as error:
        raise DamagedFile(f"{base.path}: its deltas do not fit: {error}; restore it") from error


def _patched(base: ArrayFile, name: str, deltas: Sequence[Named]) -> NDArray[Any]:
    """A table with the rows of deltas."""
    table = base.arrays[name]
    size = len(table)
    more = sum(len(each[name + APPENDED]) for each in deltas)
    whole = _with_room(base.path, base.place(name), table, more)
    for each in deltas:
        rows, appended = each[name + ROWS], each[name + APPENDED]
        require_fit(not len(rows) or (rows[0] >= 0 and rows[-1] < size), f"rows of {name}")
        whole[rows] = each[name + VALUES]
        whole[size : size + len(appended)] = appended
        size += len(appended)
    return whole


def _same_bytes(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.nbytes:
        return True
    mine, theirs = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (one, other))
    return np.array_equal(mine, theirs)


def _with_room(path: Path, place: int, table: NDArray[Any], more: int) -> NDArray[Any]:
    """A private mapping of a table, which begins at a byte of the file, with `more` rows of zeros
    behind it: the file mapped over the beginning of anonymous memory. Python's mmap cannot do
    that, the C library can."""
    size, room = table.nbytes, more * table[:1].nbytes if len(table) else 0
    if not size:
        return np.zeros((more, *table.shape[1:]), table.dtype)
    skipped = place % mmap.PAGESIZE
    region = mmap.mmap(-1, skipped + size + room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory = (ctypes.c_ubyte * len(region)).from_buffer(region)
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    with path.open("rb") as file:
        begin = _MMAP(
            ctypes.addressof(memory),
            skipped + size,
            protection,
            mmap.MAP_PRIVATE | _MAP_FIXED,
            file.fileno(),
            place - skipped,
        )
    if begin != ctypes.addressof(memory):
        raise DamagedFile(f"{path}: cannot be mapped: {ctypes.get_errno()}")
    content: NDArray[np.uint8] = np.frombuffer(memoryview(memory), dtype=np.uint8)[skipped:]
    content[size:] = 0  # the last page of the file goes on behind the table
    return content.view(table.dtype).reshape(len(table) + more, *table.shape[1:])


_MAP_FIXED = 0x10
"""The same on Linux and macOS; Python does not name it."""
_MMAP = ctypes.CDLL(None, use_errno=True).mmap
_MMAP.restype = ctypes.c_void_p
_MMAP.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int64),
)
