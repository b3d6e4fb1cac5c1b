"""Removal of versions that need not stay, and of files that no version names."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lkge.data import files as disk
from lkge.errors import RunError
from lkge.store.records import KINDS, PLAIN_NAME, Options
from lkge.store.retention import created_time, versions_to_remove
from lkge.store.verified import last_verified

if TYPE_CHECKING:
    from lkge.store.versions import Store

BATCH = KINDS[-1]
SWEEPS = 8
"""Files that no version needs are removed when a version of so many has gone."""


def prune(store: Store, options: Options) -> None:
    """Remove the versions that need not stay; none while the tags or what was verified cannot be
    read. The last one that was verified as a whole stays."""
    try:
        kept = {*store.tags.values(), last_verified(store.folder)}
    except RunError:
        return
    versions, now = store.versions(), datetime.now(UTC)
    created = partial(_created, store)
    gone = versions_to_remove(versions, store.is_whole, kept, options, created, now)
    for version in gone:
        disk.remove(store.manifest_file(version))
    left = len(versions) - len(gone)
    with suppress(OSError):  # what could not be removed is removed later
        if gone:
            disk.sync_folder(store.folder_of_versions)
        if gone and versions[-1] % max(1, left // SWEEPS) == 0:
            sweep(store)


def sweep(store: Store) -> None:
    """Remove the files that no version names; none while a manifest cannot be read. Batches that
    came after the last verified version stay: they can be learned again."""
    try:
        versions = store.versions()
        named = {name for v in versions for name in store.manifest(v).names}
        verified = last_verified(store.folder)
    except RunError:
        return
    after = range(versions[-1] + 1 if verified is None else verified + 1, versions[-1] + 1)
    for name in os.listdir(store.data):
        match = PLAIN_NAME.fullmatch(name)
        if match is None or name in named:
            continue
        is_batch = name.endswith(f"-{BATCH}.json")
        if not (is_batch and int(match["version"]) in after):
            disk.remove(store.data / name)


def _created(store: Store, version: int) -> datetime | None:
    """When a version was made; None if its manifest is damaged."""
    try:
        return created_time(store.manifest(version).record.created)
    except RunError:
        return None
