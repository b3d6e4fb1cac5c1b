"""Compaction: base files are written anew from base and deltas; the content of a version stays."""

import dataclasses
from collections.abc import Iterable

from lkge.store.content import rewritten
from lkge.store.reader import Reader
from lkge.store.verified import note_verified
from lkge.store.versions import Store


def compact(reader: Reader, kinds: Iterable[str]) -> None:
    """Write the base files of some kinds of the newest version anew. Every byte that is copied is
    verified, and so is the version before, which then stays until this is done again: the new files
    and the old ones do not fail together. Only for who holds the writer's lock."""
    store, manifest, files = reader.store, reader.manifest, dict(reader.manifest.files)
    for kind in kinds:
        reader.verify(kind)
        arrays = reader.arrays(kind)
        files[kind] = (rewritten(store.data, manifest.version, kind, arrays),)
    verify_before(store, manifest.version)
    store.replace_manifest(dataclasses.replace(manifest, files=files))


def verify_before(store: Store, version: int) -> None:
    """Verify the newest version before one, and remember it."""
    earlier = [number for number in store.versions() if number < version]
    if earlier:
        verify_version(store, earlier[-1])


def verify_version(store: Store, version: int) -> None:
    """Verify all files of a version, and remember it."""
    for files in store.opened(store.manifest(version)).values():
        for file in files:
            file.verify()
    note_verified(store.folder, version)
