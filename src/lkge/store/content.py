"""What a version changes in the arrays of each kind, and how that is written: a base file with all
arrays, or a delta file with the changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from lkge.data import files as disk
from lkge.store.arrays import Arrays, write_arrays
from lkge.store.records import File, FileChecksum, Manifest, StoreConfig

BASE, DELTA = "base", "delta"
MAX_DELTAS = 32


@dataclass(frozen=True)
class Change:
    """Arrays by what differs from the version before.

    whole   all of them, made when asked for; what is copied for it is verified then
    delta   the arrays of a delta file; empty if nothing changed
    """

    whole: Callable[[], Arrays]
    delta: Mapping[str, NDArray[Any]]


Content = Arrays | Change
"""The arrays of one kind; without a `Change` all are written."""


def written(
    folder: Path,
    version: int,
    kind: str,
    content: Content,
    before: tuple[File, ...],
    config: StoreConfig,
) -> tuple[File, ...]:
    """Write the content of a version into the folder of the files; all files of that kind then.
    `before` are those of the version before."""
    if isinstance(content, Change):
        if not content.delta and before:
            return before
        if before and _is_small(content.delta, before[0], config):
            return (*before, _write(folder, version, f"{kind}-{DELTA}", content.delta))
        content = content.whole()
    return (_write(folder, version, f"{kind}-{BASE}", content),)


def rewritten(folder: Path, version: int, kind: str, arrays: Arrays) -> File:
    """Write all arrays of a kind of a version as a base file."""
    return _write(folder, version, f"{kind}-{BASE}", arrays)


def compaction_due(manifest: Manifest, config: StoreConfig) -> list[str]:
    """The kinds whose deltas are a large share of the base, or many."""
    return [
        kind
        for kind, (base, *deltas) in manifest.files.items()
        if len(deltas) >= MAX_DELTAS
        or sum(each.bytes for each in deltas) > config.compact_after * base.bytes
    ]


def _is_small(delta: Mapping[str, NDArray[Any]], base: FileChecksum, config: StoreConfig) -> bool:
    """Whether a delta is worth while: a small base is read and written at once."""
    size = sum(array.nbytes for array in delta.values())
    return base.bytes >= config.deltas_from_bytes and 2 * size <= base.bytes


def _write(folder: Path, version: int, name: str, arrays: Arrays) -> File:
    """Write a file. One of that name is the rest of a crash; who has mapped it keeps it."""
    name = f"{version:06d}-{name}.safetensors"
    disk.remove(folder / name)
    checksum = write_arrays(folder / name, arrays)
    return File(checksum.sha256, checksum.bytes, name)
