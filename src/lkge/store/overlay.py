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
Tables = Mapping[str, Array]


def table_delta(before: Tables, after: Tables) -> dict[str, NDArray[Any]] | None:
    """What differs, as the arrays of a delta; None if a delta cannot say it, and all is written."""
    if before.keys() != after.keys():
        return None
    delta: dict[str, NDArray[Any]] = {}
    for name, array in after.items():
        old = before[name]
        if isinstance(array, Patched):
            if array.base is not old:
                return None
            if len(array.rows) or len(array.appended):
                parts = {ROWS: array.rows, VALUES: array.values, APPENDED: array.appended}
                delta |= {name + suffix: part for suffix, part in parts.items()}
        elif isinstance(old, Patched) or is_by_entity(name):
            if isinstance(old, Patched) or not _same_bytes(old, array):
                return None
        elif not _same_bytes(old, array):
            delta[name] = array
    return delta


def overlaid(base: ArrayFile, deltas: Sequence[Named]) -> dict[str, NDArray[Any]]:
    """The arrays of a base file after its deltas, in order, each contiguous."""
    return {
        name: _written_over(base, name, table) if isinstance(table, Patched) else table
        for name, table in patched(base, deltas).items()
    }


def patched(base: ArrayFile, deltas: Sequence[Named]) -> dict[str, Array]:
    """The same arrays, of which only some rows are to be read."""
    try:
        arrays: dict[str, Array] = dict(base.arrays)
        for name in base.arrays:
            replaced = [each[name] for each in deltas if name in each]
            parts = [each for each in deltas if name + ROWS in each]
            require_fit(not (replaced and parts), f"{name} is replaced and patched")
            if replaced:
                arrays[name] = replaced[-1]
            elif parts:
                arrays[name] = _patched(base.arrays[name], name, parts)
        return arrays
    except (KeyError, IndexError, ValueError) as error:
        raise DamagedFile(f"{base.path}: its deltas do not fit: {error}; restore it") from error


def _patched(table: NDArray[Any], name: str, deltas: Sequence[Named]) -> Patched:
    """A table after deltas, the last value of each row."""
    size = len(table)
    appended = np.concatenate([table[:0], *(each[name + APPENDED] for each in deltas)])
    rows, values = [np.empty(0, np.int64)], [table[:0]]
    for each in deltas:
        among = each[name + ROWS]
        fits = not len(among) or (among[0] >= 0 and among[-1] < size)
        require_fit(bool(fits), f"rows of {name}")
        later = among >= len(table)
        appended[among[later] - len(table)] = each[name + VALUES][later]
        rows.append(among[~later])
        values.append(each[name + VALUES][~later])
        size += len(each[name + APPENDED])
    every, all_values = np.concatenate(rows), np.concatenate(values)
    distinct, last = np.unique(every[::-1], return_index=True)
    return Patched(table, distinct, all_values[::-1][last], appended)


def _written_over(base: ArrayFile, name: str, table: Patched) -> NDArray[Any]:
    """A table with its changes written over its mapping."""
    assert isinstance(table.base, np.ndarray)
    whole = _with_room(base.path, base.place(name), table.base, len(table.appended))
    whole[table.rows] = table.values
    whole[len(table.base) :] = table.appended
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
