"""Migration of a living graph of format 1 or 2 to the format of now, in its folder.

The new files are written beside the old ones. The graph is of the new format as soon as
`store.json` says so, by a rename; until then the old files are all there, and a migration that was
stopped begins anew. Then the old files are removed; what is damaged is set aside.
"""

import dataclasses
import hashlib
from pathlib import Path

from lkge.data.files import as_run_error, is_passing, remove, sync_folder, write_bytes_through
from lkge.errors import DamagedFile, NewerFormat, RunError
from lkge.store import log, old_format
from lkge.store.array_files import ArrayFile
from lkge.store.content import rewritten
from lkge.store.inbox import FactBatch
from lkge.store.records import File, LogPosition, Manifest, read_record, write_record
from lkge.store.repairing import set_aside
from lkge.store.verified import note_verified
from lkge.store.versions import BATCH, Store


def migrate(store: Store) -> list[str]:
    """Bring a store to the format of now; what was done, in words. Only for who holds the writer's
    lock."""
    done = _migrate(store) if store.is_old else []
    for version in old_format.versions_in(store.folder_of_versions):
        folder = store.folder_of_versions / f"{version:06d}"
        if store.manifest_file(version).exists():
            remove(folder)
        else:
            done.append(set_aside(store, folder))
    sync_folder(store.folder_of_versions)
    return done


def _migrate(store: Store) -> list[str]:
    manifests, damaged = _sound_versions(store)
    if not manifests:
        raise DamagedFile(f"{store.folder}: no version is whole; restore the folder from a backup")
    newest, config, options = max(manifests), store.config, store.options
    done = [line for version in damaged if version > newest for line in _taken_back(store, version)]
    with as_run_error(store.folder):
        for path in store.folder_of_versions.glob("*.json"):  # a migration that was stopped
            remove(path)
        for path in (store.data, store.log_file):
            remove(path)
        store.data.mkdir()
        positions = _write_log(store, manifests[newest])
        files = {version: _write_files(store, each) for version, each in manifests.items()}
        sync_folder(store.data)
        for version, manifest in manifests.items():
            new = dataclasses.replace(manifest, files=files[version], log=positions[version])
            write_record(store.folder_of_versions / f"{version:06d}.json", new)
        sync_folder(store.folder)
    store.write_root(config.to_dict(), options)
    store.require_writable()
    note_verified(store.folder, newest)
    return [*done, f"{store.folder}: {len(manifests)} versions are in the new format"]


def _sound_versions(store: Store) -> tuple[dict[int, Manifest], list[int]]:
    """The versions of which every byte is as it was written, and the others."""
    sound, damaged = {}, []
    for version in store.versions():
        try:
            manifest = store.manifest(version)
            for files in store.opened(manifest).values():
                for file in files:
                    file.verify()
            sound[version] = manifest
        except NewerFormat:
            raise
        except RunError as error:
            if is_passing(error, of_disk=True):
                raise
            damaged.append(version)
    return sound, damaged


def _taken_back(store: Store, version: int) -> list[str]:
    """Put the batch of a damaged version back into the inbox."""
    path = store.folder_of_versions / f"{version:06d}" / f"{BATCH}.json"
    try:
        batch = read_record(path, FactBatch)
    except NewerFormat:
        raise
    except RunError:
        return [f"{path}: version {version} is damaged; if it had a batch, add its facts again"]
    if not store.batch_file(batch.number).exists():
        write_record(store.batch_file(batch.number), batch)
    return [f"{store.batch_file(batch.number)}: batch {batch.number} is to be learned again"]


def _write_log(store: Store, newest: Manifest) -> dict[int, LogPosition]:
    """Write the log; where each version ends in it."""
    lines, positions, position = [], {}, LogPosition()
    for record in store.log(newest):
        line, checksum = log.line_of(record, position.checksum)
        position = LogPosition(position.bytes + len(line), checksum)
        positions[record.version] = position
        lines.append(line)
    write_bytes_through(store.log_file, b"".join(lines))
    return positions


def _write_files(store: Store, manifest: Manifest) -> dict[str, tuple[File, ...]]:
    """Write the files of a version in the new format."""
    version, files = manifest.version, dict(manifest.files)
    for kind, (file,) in manifest.files.items():
        path = store.path_of(file)
        if kind == BATCH:
            files[kind] = (_write_batch(path, store.data / file.name),)
        else:
            arrays = ArrayFile(path, file, old=True).arrays
            files[kind] = (rewritten(store.data, version, kind, arrays),)
    return files


def _write_batch(path: Path, target: Path) -> File:
    batch = path.read_bytes()
    write_bytes_through(target, batch)
    return File(hashlib.sha256(batch).hexdigest(), len(batch), target.name)
