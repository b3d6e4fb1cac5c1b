"""Find all damage in a store by reading every byte; `lkge.store.repairing` repairs it.

A file is damaged if a checksum differs, or if an offset or id in its arrays is out of range.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.files import LEFTOVER, is_passing, reason_of, with_remedies
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, require_fit, stored_array
from lkge.data.reading import max_memory, read_regular
from lkge.errors import DamagedFile, LkgeError, NewerFormat, RunError
from lkge.store import log, versions
from lkge.store.array_files import ArrayFile
from lkge.store.composed import known_of, names_of
from lkge.store.holdout import RETRACTED, HoldOut
from lkge.store.inbox import FactBatch, read_batch
from lkge.store.overlay import overlaid
from lkge.store.reader import as_damage
from lkge.store.records import PLAIN_NAME, File, Manifest, VersionRecord, read_record, to_json
from lkge.store.skipped import SKIPPED
from lkge.store.tags import TAGS
from lkge.store.verified import note_verified, verified
from lkge.store.versions import BATCH, STORE, Store

NOTED_BYTES = 1 << 28
"""What is verified is remembered after so many bytes."""


@dataclasses.dataclass(frozen=True)
class Damage:
    """A file, what is wrong with it, and the version that wrote it, if any."""

    path: str
    reason: str
    version: int | None = None


def check(store: Store) -> list[Damage]:
    """All damage, by the checksum of every file and by whether its content makes sense.

    What a crash left unfinished is no damage: nobody reads it, and the next writer removes it.
    Neither is what a writer at work prunes or learns in the meantime. If this is stopped, the next
    call goes on with the files that were not read.
    """
    with with_remedies(store.folder):
        return _check(store)


def _check(store: Store) -> list[Damage]:
    numbers, batches = store.versions(), store.batch_numbers()
    manifests, damaged = manifests_of(store, numbers)
    found = [
        *_root_damage(store),
        *_strays(store.folder_of_versions, _names_of_versions(numbers), "not a version"),
        *damaged,
        *_lost_manifests(store, manifests),
        *_strays(store.data, filter(PLAIN_NAME.fullmatch, _listed(store.data)), "not of a version"),
        *(log_damage(store, manifests) if not store.is_old else ()),
        *_files_damage(store, manifests),
        *_strays(store.inbox, {store.batch_file(number).name for number in batches}, "not a batch"),
        *(damage for number in batches for damage in _batch_damage(store, number)),
    ]
    _remember(store, manifests, found)
    return found


def manifests_of(store: Store, numbers: Iterable[int]) -> tuple[dict[int, Manifest], list[Damage]]:
    """The manifests that can be read, and the damage of the others."""
    manifests, damaged = {}, []
    for version in numbers:
        try:
            manifests[version] = store.manifest(version)
        except NewerFormat:
            raise
        except RunError as error:
            path = store.manifest_file(version)
            if path.exists() or path.parent != store.folder_of_versions:
                damaged.append(_damage(path, error, version))
    return manifests, damaged


def _lost_manifests(store: Store, manifests: Mapping[int, Manifest]) -> Iterator[Damage]:
    """Versions behind the newest one that took their batch from the inbox and are not there."""
    newest = max(store.versions(), default=-1)
    if newest not in manifests or store.is_old:
        return
    for path in sorted(store.data.glob(f"*-{BATCH}.json")):
        if PLAIN_NAME.fullmatch(path.name) and (version := version_of(path.name)) > newest:
            with suppress(RunError):
                number = read_record(path, FactBatch).number
                taken = not store.batch_file(number).exists() and number not in store.skipped
                if taken and number > manifests[newest].last_batch:
                    yield Damage(str(store.manifest_file(version)), "missing", version)


def files_of(manifests: Mapping[int, Manifest]) -> dict[str, tuple[str, File]]:
    """All files that manifests name, each once: its kind and checksum by name."""
    return {
        file.name: (kind, file)
        for manifest in manifests.values()
        for kind, files in manifest.files.items()
        for file in files
    }


def _remember(store: Store, manifests: Mapping[int, Manifest], found: Iterable[Damage]) -> None:
    """The newest version without damage is the last verified one; nothing is left to go on with."""
    if store.is_old:
        return
    bad = {Path(damage.path).name for damage in found}
    sound = [v for v, manifest in manifests.items() if not bad & manifest.names]
    try:
        note_verified(store.folder, max(sound, default=verified(store.folder).version))
    except RunError:
        return  # a folder that cannot be written is verified all the same


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
            if not store.manifest_file(version).exists():
                yield Damage(str(path), f"the tag {name!r} names version {version}: not there")
    except LkgeError as error:
        yield _damage(path, error)


def log_damage(store: Store, manifests: Mapping[int, Manifest]) -> Iterator[Damage]:
    """Whether the log has the line of each version where its manifest says."""
    if not manifests:
        return
    path = store.log_file
    try:
        content = read_regular(path, max_memory(), follow=False)
        positions = log.positions(content)
        for version, manifest in manifests.items():
            line = positions.get(version)
            if line is None or line[0] != manifest.log or not _same(line[1], manifest.record):
                raise DamagedFile(f"{path}: it does not have the line of version {version}")
    except FileNotFoundError:
        yield Damage(str(path), "missing")
    except OSError as error:
        if is_passing(error):
            raise
        yield Damage(str(path), f"cannot be read: {reason_of(error)}")
    except RunError as error:
        yield _damage(path, error)


def _same(one: VersionRecord, other: VersionRecord) -> bool:
    """Whether two records are equal; nan is equal to itself."""
    return to_json(one) == to_json(other)


def _files_damage(store: Store, manifests: Mapping[int, Manifest]) -> Iterator[Damage]:
    """Every file by its checksums, and then the arrays of the longest chains of files."""
    last, done = verified(store.folder).version, set(verified(store.folder).files)
    harmed, read = set[str](), 0
    for name, (kind, file) in sorted(files_of(manifests).items()):
        if name in done and store.path_of(file).exists():
            continue
        reason = broken(store.path_of(file), kind, file, store.is_old)
        if reason and _is_named(store, name):
            harmed.add(name)
            yield Damage(str(store.path_of(file)), reason, version_of(name))
        done.add(name)
        read += file.bytes
        if read > NOTED_BYTES and not harmed and not store.is_old:
            read = 0
            note_verified(store.folder, last, tuple(sorted(done)))
    for manifest in manifests.values():
        for kind, files in manifest.files.items():
            if kind != BATCH and not harmed & {each.name for each in files}:
                is_longest = not any(
                    _is_longer(other.files.get(kind, ()), files) for other in manifests.values()
                )
                if is_longest:
                    yield from _inconsistency(store, kind, files, manifest.record)


def _is_longer(other: tuple[File, ...], files: tuple[File, ...]) -> bool:
    return len(other) > len(files) and other[0] == files[0]


def _inconsistency(
    store: Store, kind: str, files: tuple[File, ...], record: VersionRecord
) -> Iterator[Damage]:
    """Whether the arrays of a kind make sense in a version."""
    try:
        opened = [ArrayFile(store.path_of(file)) for file in files]
        with as_damage(store.path_of(files[0])):
            _require_consistent(kind, opened, record)
    except RunError as error:
        if _is_named(store, files[0].name):
            yield _damage(store.path_of(files[0]), error, record.version)


def version_of(name: str) -> int:
    """The version that wrote a file."""
    return int(name.partition("-")[0])


def _is_named(store: Store, name: str) -> bool:
    """Whether a manifest still names a file; a writer may prune or compact meanwhile."""
    return name in files_of(manifests_of(store, store.versions())[0])


def broken(path: Path, kind: str, file: File, old: bool = False) -> str | None:
    """In which way a file is not what it must be."""
    try:
        size = path.lstat().st_size
        if size != file.bytes:
            wrong = "truncated" if size < file.bytes else "too long"
            return f"{wrong}: {size} of {file.bytes} bytes"
        if kind == BATCH:
            content = read_regular(path, file.bytes, follow=False)
            same = hashlib.sha256(content).hexdigest() == file.sha256
            return None if same else "its digest differs"
        ArrayFile(path, file, old=old).verify()
    except FileNotFoundError:
        return "missing"
    except (OSError, DamagedFile) as error:
        if is_passing(error):
            raise
        if isinstance(error, OSError):
            return f"cannot be read: {reason_of(error)}"
        return str(error).removeprefix(f"{path}: ")
    return None


def _batch_damage(store: Store, number: int) -> Iterator[Damage]:
    try:
        read_batch(store, number)
    except RunError as error:
        if store.batch_file(number).exists():
            yield _damage(store.batch_file(number), error)


def _names_of_versions(numbers: Iterable[int]) -> set[str]:
    """What may be in the folder of versions: manifests, and the folders of old formats; a
    migration that was stopped leaves both."""
    return {name for number in numbers for name in (f"{number:06d}", f"{number:06d}.json")}


def _listed(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _strays(folder: Path, known: Iterable[str], reason: str) -> Iterator[Damage]:
    """All in a folder that is not known and not merely unfinished."""
    known = set(known)
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.name not in known and not path.match(LEFTOVER):
            yield Damage(str(path), reason)


def _damage(path: Path, error: Exception, version: int | None = None) -> Damage:
    if is_passing(error):
        raise error
    if not path.exists():
        return Damage(str(path), "missing", version)
    return Damage(str(path), str(error).removeprefix(f"{path}: "), version)


# Arrays

Columns = Mapping[str, NDArray[Any]]


def _require_consistent(kind: str, files: list[ArrayFile], record: VersionRecord) -> None:
    """DamagedFile if the arrays of a kind contradict themselves or the version's totals."""
    if kind == versions.NAMES:
        _require_names(names_of(files), record)
        return
    if kind == versions.KNOWN:
        _require_answers(known_of(files), record)
        return
    arrays = overlaid(files[0], [each.arrays for each in files[1:]])
    if kind == versions.HOLD_OUT_FILE:
        _require_hold_out(arrays, record)
    elif kind in (versions.MODEL, versions.INFERENCE):
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
