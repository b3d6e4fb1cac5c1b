"""Living graphs of formats 1 and 2, which are read: a folder for each version, with all its files.

versions/000012/manifest.json     checksums of its files, and the log of all versions so far
versions/000012/batch.json        the batch that it learned
versions/000012/model.safetensors, inference, names, known and hold_out
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lkge.data import files as disk
from lkge.data.checked_json import read_checked_json
from lkge.errors import DamagedFile, NewerFormat, RunError
from lkge.store.records import (
    INIT,
    KINDS,
    OLD_FIELDS,
    OLD_FORMATS,
    REMEDY,
    FileChecksum,
    Manifest,
    VersionRecord,
    format_of,
    from_json,
)

MANIFEST = "manifest.json"
OLD_NAMES = {"inference": "answering", "hold_out": "exam"}
"""Kind → the name of its file in format 1."""

Log = tuple[VersionRecord, ...]


def versions_in(folder: Path) -> list[int]:
    """The numbers of the folders of versions, ascending."""
    found = disk.numbers(folder, r"(\d{6}|[1-9]\d{6,})")
    return [number for number in found if (folder / f"{number:06d}").is_dir()]


def manifest_file(folder: Path, version: int) -> Path:
    """Where the manifest of a version is."""
    return folder / f"{version:06d}" / MANIFEST


def path_of(folder: Path, name: str) -> Path:
    """Where a file is whose name would be `name` now."""
    version, kind = re.split("[-.]", name)[:2]
    place = folder / version
    if kind == "batch":
        return place / "batch.json"
    path = place / f"{kind}.safetensors"
    return path if path.exists() else place / f"{OLD_NAMES.get(kind, kind)}.safetensors"


def read_manifest(path: Path) -> tuple[Manifest, Log]:
    """A manifest, under the names of now, and the log up to it."""
    if path.parent.is_symlink():
        raise DamagedFile(f"{path.parent}: a symbolic link")
    try:
        tree = read_checked_json(path, follow=False)
        format_ = format_of(path, tree.pop("format", None))
        if format_.reader not in OLD_FORMATS:
            raise DamagedFile(f"{path}: written in format {format_.reader}")
        tree = {OLD_FIELDS.get(name, name): value for name, value in tree.items()}
        log = tuple(_record(line) for line in tree.pop("log"))
        if [record.version for record in log] != list(range(tree["version"] + 1)):
            raise ValueError("the log has a gap")
        files = {kind: [file] for kind, file in _files(tree["version"], tree.pop("files")).items()}
        tree["files"], tree["record"], tree["log"] = files, {}, {}
        tree["facts_since_consolidation"] = facts_since_last(log)
        record = {"version": tree["version"], "kind": log[-1].kind, "created": log[-1].created}
        manifest = from_json(Manifest, tree | {"record": record})
        return Manifest(**(manifest.__dict__ | {"record": log[-1]})), log
    except (NewerFormat, RecursionError):
        raise
    except (RunError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise DamagedFile(f"{path}: damaged; {REMEDY}") from error


def facts_since_last(log: Log) -> int:
    """New facts since all known facts were trained on: by a consolidation, by the first batch, or
    by a batch that was large beside what was known."""
    total = 0
    for record in reversed(log):
        if record.full or record.kind == INIT:
            break
        total += record.facts
    return total


def _record(line: Mapping[str, Any]) -> VersionRecord:
    """A line of the log; it had the MRR of the facts of each version, which is left out."""
    return from_json(VersionRecord, {name: line[name] for name in line if name != "row"})


def _files(version: int, named: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The files by kind, with the names that they would have now."""
    kinds = {old: kind for kind, old in OLD_NAMES.items()}
    found = {}
    for name, checksum in named.items():
        stem, _, ending = name.partition(".")
        kind = kinds.get(stem, stem)
        if kind not in KINDS or ending not in ("json", "safetensors"):
            raise ValueError(f"{name!r} is not the name of a file of a version")
        now = f"{kind}.json" if kind == "batch" else f"{kind}-base.safetensors"
        found[kind] = {**checksum, "name": f"{version:06d}-{now}"}
        from_json(FileChecksum, checksum)
    return found
