"""A copy of a living graph as it is now, while others read and write it.

Files in `data` never change, so copying into the same folder again takes only new ones. Every byte
is verified as it is copied. Manifests come last: a copy that was stopped is the graph as it was
copied before, and the next one goes on.
"""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from lkge.data.files import (
    LEFTOVER,
    as_run_error,
    held,
    make_folders,
    reason_of,
    remove,
    remove_leftovers,
    sync_folder,
    unfinished,
    write_bytes_atomically,
)
from lkge.data.reading import open_regular, read_regular
from lkge.errors import DamagedFile, RunError
from lkge.store.checking import broken, files_of, version_of
from lkge.store.inbox import FactBatch, waiting
from lkge.store.pruning import sweep
from lkge.store.records import Manifest, read_record, write_record
from lkge.store.verified import VERIFIED
from lkge.store.versions import (
    BATCH,
    DATA,
    INBOX,
    LOG,
    SET_ASIDE,
    STORE,
    VERSIONS,
    WRITER_LOCK,
    Store,
    require_own,
)

WHOLE = (STORE, "tags.json", "labels.json", "skipped.json")
"""Files that are copied as they are."""


def backup(store: Store, target: Path) -> int:
    """Copy a store into a new folder, or into an earlier copy; the bytes that were written. The
    copy has all batches that were accepted before."""
    store.require_writable()  # of old formats nothing else can be made
    with as_run_error(target):
        require_own(target)
        _require_copy(store, target)
        for name in (VERSIONS, DATA, INBOX):  # the first one marks a copy
            make_folders(target / name)
        with held(target / WRITER_LOCK) as alone:
            if not alone:
                raise RunError(f"{target}: another process writes to it; wait for it to end")
            for name in ("", VERSIONS, DATA, INBOX, SET_ASIDE):
                remove_leftovers(target / name)
            return _copied(store, target)


def _require_copy(store: Store, target: Path) -> None:
    """RunError if a folder has something else than a copy of this graph."""
    there = {path.name for path in target.iterdir()} if target.exists() else set()
    there -= {name for name in there if Path(name).match(LEFTOVER)}
    if not there:
        return
    known = {VERSIONS, DATA, INBOX, SET_ASIDE, LOG, WRITER_LOCK, VERIFIED, *WHOLE}
    if target.resolve() == store.folder.resolve() or there - known or VERSIONS not in there:
        raise RunError(f"{target}: is no backup; name another folder")
    if (copy := target / LOG).exists():
        with copy.open("rb") as one, store.log_file.open("rb") as other:
            if one.readline() != other.readline():
                raise RunError(f"{target}: is a backup of another graph; name another folder")


def _copied(store: Store, target: Path) -> int:
    """Batches come first: one that is learned meanwhile is known by its number. One that is set
    aside or restored meanwhile is in the copy, too."""
    size = _copy_set_aside(store, target)
    aside = store.set_aside_numbers()
    for batch in waiting(store):
        path = target / INBOX / store.batch_file(batch.number).name
        if not path.exists():
            write_record(path, batch)
            size += path.stat().st_size
    manifests, copied = _copy_data(store, target)
    size += copied
    with store.log_file.open("rb") as log:
        size += _replace(target / LOG, log.read(manifests[max(manifests)].log.bytes))
    for name in WHOLE:
        if (store.folder / name).exists():
            size += _replace(target / name, (store.folder / name).read_bytes())
    size += _copy_set_aside(store, target)
    copy = Store(target)
    for number in set(copy.set_aside_numbers()) - {*aside, *store.set_aside_numbers()}:
        remove(copy.set_aside_file(number))
    for version, manifest in manifests.items():
        if not copy.is_whole(version) or copy.manifest(version) != manifest:
            write_record(copy.manifest_file(version), manifest)
            size += copy.manifest_file(version).stat().st_size
    for version in set(copy.versions()) - set(manifests):
        remove(copy.manifest_file(version))
    for number in copy.batch_numbers():
        if number <= manifests[max(manifests)].last_batch:
            remove(copy.batch_file(number))
    sync_folder(copy.folder_of_versions)  # no manifest may come back without its files
    sweep(copy)
    return size


def _copy_set_aside(store: Store, target: Path) -> int:
    """Copy the batches that are kept and do not wait, damaged ones too."""
    size = 0
    for path in map(store.set_aside_file, store.set_aside_numbers()):
        make_folders(target / SET_ASIDE)
        with suppress(FileNotFoundError):  # it was restored just now
            size += _replace(target / SET_ASIDE / path.name, read_regular(path, follow=False))
    return size


def _copy_data(store: Store, target: Path) -> tuple[dict[int, Manifest], int]:
    """Copy the files of all versions; again, if a writer prunes or compacts meanwhile."""
    size = 0
    while True:
        numbers, manifests = store.versions(), dict[int, Manifest]()
        try:
            manifests = {version: store.manifest(version) for version in numbers}
            size += _copy_files(store, target, manifests)
            return manifests, size
        except (OSError, DamagedFile):
            try:
                if manifests == {version: store.manifest(version) for version in store.versions()}:
                    raise
            except DamagedFile:
                if numbers == store.versions():
                    raise


def _copy_files(store: Store, target: Path, manifests: Mapping[int, Manifest]) -> int:
    """Copy and verify the files that are not there yet. The batch of a version that the copy does
    not have yet waits in the copy: until the manifest is there, it is not learned."""
    size, newest = 0, max(Store(target).versions(), default=None)
    for kind, file in files_of(manifests).values():
        path = target / DATA / file.name
        if path.exists() and broken(path, kind, file) is None:
            continue
        if kind == BATCH and newest is not None and version_of(file.name) > newest:
            batch = read_record(store.path_of(file), FactBatch)
            write_record(target / INBOX / store.batch_file(batch.number).name, batch)
        with unfinished(path) as temporary:
            with (
                _opened(store.path_of(file)) as source,
                temporary.open("xb") as copy,
            ):
                shutil.copyfileobj(source, copy, 1 << 20)
                copy.flush()
                os.fsync(copy.fileno())
            if reason := broken(temporary, kind, file):
                raise DamagedFile(f"{store.path_of(file)}: {reason}")
        size += file.bytes
    sync_folder(target / DATA)
    return size


def _opened(path: Path) -> BufferedReader:
    try:
        return open_regular(path, follow=False)
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read: {reason_of(error)}") from error


def _replace(path: Path, content: bytes) -> int:
    """Write a file unless it has the content already; the bytes written."""
    if path.exists() and path.read_bytes() == content:
        return 0
    write_bytes_atomically(path, content)
    return len(content)
