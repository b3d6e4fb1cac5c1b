"""Repair a store: what is damaged is set aside, and what was lost with it is learned again."""

import dataclasses
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from lkge.data.files import as_run_error, remove, sync_folder, write_bytes_atomically
from lkge.errors import DamagedFile, NewerFormat, RunError
from lkge.store import log, records
from lkge.store.checking import Damage, check, log_damage, manifests_of, version_of
from lkge.store.inbox import FactBatch
from lkge.store.pruning import sweep
from lkge.store.records import LogPosition, Manifest, VersionRecord, read_record, write_record
from lkge.store.tags import TAGS, write_tags
from lkge.store.verified import VERIFIED
from lkge.store.versions import BATCH, DAMAGED, STORE, Store


def repair(store: Store) -> list[str]:
    """Set aside what is damaged, so that the store goes on; what was done, in words.

    Versions newer than the last whole one are to be learned again: their batches, which are kept,
    go back into the inbox. Only for who holds the writer's lock.
    """
    store.require_writable()
    remove(store.folder / VERIFIED)  # all is read again
    damages = check(store)
    manifests, _ = manifests_of(store, store.versions())
    bad = {Path(damage.path).name for damage in damages} | _senseless(damages, manifests)
    whole = [v for v, manifest in manifests.items() if not bad & _needed(manifest)]
    if not whole:
        raise DamagedFile(f"{store.folder}: no version is whole; restore the folder from a backup")
    last = max(*store.versions(), *(damage.version or 0 for damage in damages))
    done = list(_take_back(store, whole[-1], last)) if last > whole[-1] else []
    for version in sorted(set(store.versions()) - set(whole)):
        done.append(set_aside(store, store.manifest_file(version)))
    manifests = {version: manifests[version] for version in whole}
    for damage in damages:
        done += _mend(store, Path(damage.path), damage, manifests)
    if any(log_damage(store, manifests)):
        done.append(_log_anew(store, manifests))
    sweep(store)
    return done + list(_mend_tags(store))


def _needed(manifest: Manifest) -> set[str]:
    """The files that a version cannot do without: all but its batch."""
    return manifest.names - {file.name for file in manifest.files.get(BATCH, ())}


def _senseless(damages: list[Damage], manifests: dict[int, Manifest]) -> set[str]:
    """The files of the same kind as a base that does not fit to its deltas."""
    bad = {Path(damage.path).name for damage in damages}
    return {
        file.name
        for manifest in manifests.values()
        for kind, files in manifest.files.items()
        if kind != BATCH and files[0].name in bad
        for file in files
    }


def _take_back(store: Store, newest: int, last: int) -> Iterator[str]:
    """Put the batches of all versions after one, up to the last, back into the inbox."""
    lost = set(range(newest + 1, last + 1))
    for path in sorted(store.data.glob(f"*-{BATCH}.json")):
        version = version_of(path.name)
        if version <= newest:
            continue
        try:
            batch = read_record(path, FactBatch)
        except NewerFormat:
            raise
        except RunError:
            continue
        lost.discard(version)
        target = store.batch_file(batch.number)
        if not target.exists():
            write_record(target, batch)
        yield f"{target}: batch {batch.number} is to be learned again"
    for version in sorted(lost):
        if _had_batch(store, version):
            yield f"the batch of version {version} is lost; add its facts again"


def _had_batch(store: Store, version: int) -> bool:
    """Whether a version learned a batch, as far as its manifest or the log says."""
    lines = {record.version: record for record in log.readable(store.log_file)}
    try:
        kind = store.manifest(version).record.kind
    except RunError:
        kind = lines[version].kind if version in lines else records.ADD
    return kind in records.WITH_BATCH


def _mend(
    store: Store, path: Path, damage: Damage, manifests: dict[int, Manifest]
) -> Iterator[str]:
    """Mend what does not make a version unfit, and set aside the rest."""
    if path == store.folder / STORE:
        yield _root_anew(store, manifests)
        return
    if path in (store.folder / TAGS, store.log_file):
        return  # they come last
    for version, manifest in manifests.items():
        if path.name in {file.name for file in manifest.files.get(BATCH, ())}:
            files = {kind: each for kind, each in manifest.files.items() if kind != BATCH}
            manifests[version] = dataclasses.replace(manifest, files=files)
            write_record(store.manifest_file(version), manifests[version])
            yield f"{path}: no longer named by the manifest"
    if path.exists():
        lost = path in map(store.batch_file, store.batch_numbers())
        yield set_aside(store, path) + ("; add its facts again" if lost else "")


def _log_anew(store: Store, manifests: dict[int, Manifest]) -> str:
    """Write the log anew, from its lines that can be read and the manifests. A line that is lost is
    one of the kind "lost"."""
    known = {record.version: record for record in log.readable(store.log_file)}
    known |= {version: manifest.record for version, manifest in manifests.items()}
    lines, positions = [], {}
    position, last = LogPosition(), VersionRecord(0, records.LOST, "")
    for version in range(max(manifests) + 1):
        last = known.get(version) or _lost(last, version)
        line, checksum = log.line_of(last, position.checksum)
        position = LogPosition(position.bytes + len(line), checksum)
        lines.append(line)
        positions[version] = position
    if store.log_file.exists():
        set_aside(store, store.log_file)
    with as_run_error(store.log_file):
        write_bytes_atomically(store.log_file, b"".join(lines))
    for version, manifest in manifests.items():
        changed = dataclasses.replace(manifest, log=positions[version])
        write_record(store.manifest_file(version), changed)
    missing = max(manifests) + 1 - len(known.keys() & positions.keys())
    lost = f"; {missing} lines are lost" if missing else ""
    return f"{store.log_file}: written anew{lost}"


def _lost(before: VersionRecord, version: int) -> VersionRecord:
    """A line in place of one that is lost."""
    size = before.entities, before.relations
    return VersionRecord(version, records.LOST, before.created, entities=size[0], relations=size[1])


def _mend_tags(store: Store) -> Iterator[str]:
    """Drop the tags of versions that are not there; set the file aside if it cannot be read."""
    path = store.folder / TAGS
    try:
        tags = store.tags
    except RunError:
        yield set_aside(store, path) + "; tag the versions again"
        return
    kept = {name: number for name, number in tags.items() if store.manifest_file(number).exists()}
    if kept != tags:
        write_tags(store.folder, kept)
    for name in tags.keys() - kept.keys():
        yield f"{path}: the tag {name!r} of version {tags[name]} is dropped; the version is gone"


def _root_anew(store: Store, manifests: dict[int, Manifest]) -> str:
    """Write `store.json` from what a version knows of it."""
    manifest = manifests[max(manifests)]
    record = manifest.record
    options = records.Options(known=record.known_facts > 0 or record.entities == 0)
    kept = ""
    if (store.folder / STORE).exists():
        set_aside(store, store.folder / STORE)
        kept = f"; the old one is in {store.folder / DAMAGED}"
    store.write_root(manifest.config, options)
    return f"{store.folder / STORE}: written anew, with `keep` = {options.keep}{kept}"


def set_aside(store: Store, path: Path) -> str:
    """Move a file or folder to where nobody reads it."""
    folder = store.folder / DAMAGED
    with as_run_error(folder):
        folder.mkdir(exist_ok=True)
        names = (path.name + (f".{number}" if number else "") for number in count())
        target = next(folder / name for name in names if not (folder / name).exists())
        os.replace(path, target)
        sync_folder(folder)
        sync_folder(path.parent)
    return f"{path}: damaged, set aside as {target}"
