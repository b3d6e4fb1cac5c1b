"""Find all damage in a store by reading every byte, and repair the store.

A file is damaged if its checksum differs, or if an offset or id in its arrays is out of range.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.files import LEFTOVER, as_run_error, sync_folder
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, require_fit, stored_array
from lkge.errors import DamagedFile, LkgeError, NewerFormat, RunError
from lkge.store import records, versions
from lkge.store.arrays import checksum_of, mapped
from lkge.store.holdout import RETRACTED, HoldOut
from lkge.store.inbox import FactBatch, read_batch
from lkge.store.records import VersionRecord, read_record, write_record
from lkge.store.skipped import SKIPPED
from lkge.store.tags import TAGS, write_tags
from lkge.store.versions import BATCH, DAMAGED, MANIFEST, STORE, Store


@dataclasses.dataclass(frozen=True)
class Damage:
    """A file or folder, what is wrong with it, and the version that it belongs to, if any."""

    path: str
    reason: str
    version: int | None = None


def check(store: Store) -> list[Damage]:
    """All damage, by the digest of every file and by whether its content makes sense.

    What a crash left unfinished is no damage: nobody reads it, and the next writer removes it.
    Neither is what a writer at work prunes or learns in the meantime.
    """
    versions, batches = store.versions(), store.batch_numbers()
    known = {store.folder_of(version).name for version in versions}
    waiting = {store.batch_file(number).name for number in batches}
    return [
        *_root_damage(store),
        *_strays(store.folder_of_versions, known, "not a version"),
        *(damage for version in versions for damage in _version_damage(store, version)),
        *_strays(store.inbox, waiting, "not a batch"),
        *(damage for number in batches for damage in _batch_damage(store, number)),
    ]


def repair(store: Store) -> list[str]:
    """Set aside what is damaged, so that the store goes on; what was done, in words.

    Versions newer than the last whole one are to be learned again: their batches, which each of
    them keeps, go back into the inbox. Only for who holds the writer's lock.
    """
    damages = check(store)
    spoilt = {damage.version for damage in damages if _spoils(store, damage)}
    whole = [version for version in store.versions() if version not in spoilt]
    if not whole:
        raise DamagedFile(f"{store.folder}: no version is whole; restore the folder from a backup")
    done: list[str] = []
    for version in sorted(set(store.versions()) - set(whole)):
        if version > whole[-1]:
            done += _take_back(store, version)
        done.append(_set_aside(store, store.folder_of(version)))
    for damage in damages:
        if damage.version not in spoilt:
            done += _mend(store, damage, whole[-1])
    return done + list(_mend_tags(store))


# Finding


def _root_damage(store: Store) -> Iterator[Damage]:
    try:
        _ = store.config, store.options
    except NewerFormat:
        raise
    except LkgeError as error:
        yield _damage(store.folder / STORE, error)
    try:
        _ = store.skipped
    except LkgeError as error:
        yield _damage(store.folder / SKIPPED, error)
    yield from _tag_damage(store)


def _tag_damage(store: Store) -> Iterator[Damage]:
    path = store.folder / TAGS
    try:
        for name, version in store.tags.items():
            if not store.folder_of(version).exists():
                yield Damage(str(path), f"the tag {name!r} names version {version}: not there")
    except LkgeError as error:
        yield _damage(path, error)


def _version_damage(store: Store, version: int) -> list[Damage]:
    folder = store.folder_of(version)
    try:
        manifest = store.manifest(version)
    except NewerFormat:
        raise
    except RunError as error:
        found = [_damage(folder / MANIFEST, error, version)]
    else:
        named, record = manifest.files, manifest.log[-1]
        found = [
            *_strays(folder, {MANIFEST, *named}, "not named by the manifest", version),
            *(d for name in named for d in _file_damage(folder / name, named[name], record)),
        ]
    return found if folder.exists() else []


def _file_damage(
    path: Path, expected: records.FileChecksum, record: VersionRecord
) -> Iterator[Damage]:
    reason = _broken_checksum(path, expected)
    if reason:
        yield Damage(str(path), reason, record.version)
    elif path.name != BATCH:
        try:
            _require_consistent(path.name, mapped(path), record)
        except RunError as error:
            yield _damage(path, error, record.version)


def _broken_checksum(path: Path, expected: records.FileChecksum) -> str | None:
    """In which way a file is not what it must be."""
    try:
        size = path.stat().st_size
        if size != expected.bytes:
            wrong = "truncated" if size < expected.bytes else "too long"
            return f"{wrong}: {size} of {expected.bytes} bytes"
        return None if checksum_of(path) == expected else "its digest differs"
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _batch_damage(store: Store, number: int) -> Iterator[Damage]:
    try:
        read_batch(store, number)
    except RunError as error:
        if store.batch_file(number).exists():
            yield _damage(store.batch_file(number), error)


def _strays(
    folder: Path, known: Iterable[str], reason: str, version: int | None = None
) -> Iterator[Damage]:
    """All in a folder that is not known and not merely unfinished."""
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.name not in known and not path.match(LEFTOVER):
            yield Damage(str(path), reason, version)


def _damage(path: Path, error: Exception, version: int | None = None) -> Damage:
    if not path.exists():
        return Damage(str(path), "missing", version)
    return Damage(str(path), str(error).removeprefix(f"{path}: "), version)


# Arrays

Columns = Mapping[str, NDArray[Any]]


def _require_consistent(file: str, arrays: Columns, record: VersionRecord) -> None:
    """DamagedFile if the arrays of a file contradict themselves or the version's totals."""
    file = versions.OLD_FILES.get(file, file)
    if file == versions.NAMES:
        _require_names(MappedNames.from_arrays(arrays), record)
    elif file == versions.KNOWN:
        _require_answers(KnownFacts.from_arrays(arrays), record)
    elif file == versions.HOLD_OUT_FILE:
        _require_hold_out(arrays, record)
    elif file in (versions.MODEL, versions.INFERENCE):
        _require_rows(arrays, record)


def _require_names(names: MappedNames, record: VersionRecord) -> None:
    entities = "entity", names.entity_table, record.entities, record.removed
    relations = "relation", names.relation_table, record.relations, 0
    for kind, table, expected, removed in (entities, relations):
        require_fit(len(table) == expected, f"{len(table)} {kind} names instead of {expected}")
        sizes = np.diff(table.ends, prepend=0)
        require_fit(bool((sizes >= 0).all()), f"{kind} names that end before they begin")
        empty = int((sizes == 0).sum())
        require_fit(empty == removed, f"{empty} {kind} names are empty instead of {removed}")
        numbered = np.array_equal(np.sort(table.order), np.flatnonzero(sizes))
        require_fit(numbered, f"the order of {kind} names has not every name once")


def _require_answers(answers: KnownFacts, record: VersionRecord) -> None:
    offsets = answers.offsets
    require_fit(_ascend(answers.keys), "queries out of order")
    require_fit(offsets[0] == 0 and _ascend(offsets), "answers that end before they begin")
    require_fit(offsets[-1] == len(answers.answers), "answers of no query")
    _require_ids("entity", answers.keys >> 32, record.entities)
    _require_ids("relation", answers.keys & 0xFFFFFFFF, 2 * record.relations)
    _require_ids("entity", answers.answers, record.entities)
    _require_ids("version", answers.since, record.version + 1)


def _require_hold_out(arrays: Columns, record: VersionRecord) -> None:
    since = stored_array(arrays, "since", np.int32)
    facts = arrays.get("facts", since)
    require_fit(facts.shape == (len(since), 3), f"{len(since)} facts of shape {facts.shape}")
    _require_ids("entity", facts[:, (0, 2)], record.entities)
    _require_ids("relation", facts[:, 1], 2 * record.relations)
    _require_ids("version", since, record.version + 1)
    for prefix in ("", RETRACTED):
        _require_values(HoldOut.from_arrays(arrays, prefix), record)


def _require_values(facts: HoldOut, record: VersionRecord) -> None:
    """The values that versions are compared by: shares, or nan if a fact was never ranked."""
    _require_ids("entity", facts.facts[:, (0, 2)], record.entities)
    _require_ids("relation", facts.facts[:, 1], 2 * record.relations)
    _require_ids("version", facts.since, record.version + 1)
    _require_ids("entity", facts.entities, record.entities + 1)
    ranked = facts.entities > 0
    for values in (facts.baseline[ranked], facts.last[ranked]):
        require_fit(bool(((values >= 0) & (values <= 1)).all()), "ranks that are not from 0 to 1")


def _require_rows(arrays: Columns, record: VersionRecord) -> None:
    for name in {"entity", "tables.entity"} & arrays.keys():
        rows = len(arrays[name])
        require_fit(rows == record.entities, f"{rows} rows of {record.entities} entities")


def _require_ids(kind: str, ids: NDArray[Any], count: int) -> None:
    within = not ids.size or bool(ids.min() >= 0 and ids.max() < count)
    require_fit(within, f"a number of {kind} that is not below {count}")


def _ascend(values: NDArray[Any]) -> bool:
    return bool((values[1:] > values[:-1]).all())


# Repairing


def _spoils(store: Store, damage: Damage) -> bool:
    """Whether a damage makes its version unfit to be opened."""
    if damage.version is None:
        return False
    name = Path(damage.path).name
    return name == MANIFEST or (name != BATCH and name in store.manifest(damage.version).files)


def _take_back(store: Store, version: int) -> Iterator[str]:
    """Put the batch of a version back into the inbox."""
    path = store.folder_of(version) / BATCH
    try:
        batch = read_record(path, FactBatch)
    except RunError:
        try:
            kind = store.manifest(version).log[-1].kind
            has_learned = path.exists() or kind in records.WITH_BATCH
        except RunError:
            has_learned = True
        if has_learned:
            yield f"{path}: the batch of version {version} is lost; add its facts again"
        return
    target = store.batch_file(batch.number)
    if not target.exists():
        write_record(target, batch)
    yield f"{target}: batch {batch.number} is to be learned again"


def _mend(store: Store, damage: Damage, newest: int) -> Iterator[str]:
    """Mend what does not make a version unfit."""
    path = Path(damage.path)
    if path == store.folder / STORE:
        yield _written_anew(store, newest)
        return
    if path == store.folder / TAGS:
        return  # `_mend_tags` comes last
    if damage.version is not None and path.name == BATCH:
        manifest = store.manifest(damage.version)
        files = {name: each for name, each in manifest.files.items() if name != BATCH}
        write_record(path.with_name(MANIFEST), dataclasses.replace(manifest, files=files))
        yield f"{path}: no longer named by the manifest"
    if path.exists():
        lost = path in map(store.batch_file, store.batch_numbers())
        yield _set_aside(store, path) + ("; add its facts again" if lost else "")


def _mend_tags(store: Store) -> Iterator[str]:
    """Drop the tags of versions that are not there; set the file aside if it cannot be read."""
    path = store.folder / TAGS
    try:
        tags = store.tags
    except RunError:
        yield _set_aside(store, path) + "; tag the versions again"
        return
    kept = {name: number for name, number in tags.items() if store.folder_of(number).exists()}
    if kept != tags:
        write_tags(store.folder, kept)
    for name in tags.keys() - kept.keys():
        yield f"{path}: the tag {name!r} of version {tags[name]} is dropped; the version is gone"


def _written_anew(store: Store, version: int) -> str:
    """Write `store.json` from what a version knows of it."""
    manifest = store.manifest(version)
    record = manifest.log[-1]
    options = records.Options(known=record.known_facts > 0 or record.entities == 0)
    store.write_root(manifest.config, options)
    return f"{store.folder / STORE}: written anew, with `keep` = {options.keep}"


def _set_aside(store: Store, path: Path) -> str:
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
