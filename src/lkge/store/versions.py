"""A living graph on disk: a folder of versions, each complete, each published atomically.

    store.json                   settings and options
    tags.json                    names of versions
    skipped.json                 batches that led to no version
    versions/000000/             a version; what is there is complete, what is newest is current
        manifest.json            what it is, with the checksums of its files and the log
        batch.json               the batch that it learned, to learn it again if need be
        *.safetensors            its arrays
    inbox/00000001.json          accepted batches that are not learned yet
    learning/                    the checkpoint of the batch being learned
    set_aside/00000001.json      batches that are kept and do not wait (`lkge.store.queue`)
    damaged/                     what `repair` has set aside
    writer.lock, inbox.lock      held by who publishes, and by who accepts a batch

Whoever publishes holds the writer's lock (`lkge.store.locks`). Readers hold nothing: they keep the
files that they have opened, and ask `Store.at_newest` to open others when those went away.
"""

import dataclasses
import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from lkge.config import RunConfig
from lkge.configure import from_tree
from lkge.data import files as disk
from lkge.data.reading import read_regular
from lkge.errors import DamagedFile, LkgeError, NewerFormat, RunError
from lkge.store import records
from lkge.store.arrays import Arrays, write_arrays
from lkge.store.records import Manifest, Options
from lkge.store.retention import created_time, versions_to_remove
from lkge.store.skipped import SKIPPED, SkippedBatch, skipped_batches
from lkge.store.tags import TAGS, read_tags, version_of_tag

STORE, VERSIONS, INBOX, LEARNING, DAMAGED = "store.json", "versions", "inbox", "learning", "damaged"
SET_ASIDE = "set_aside"
WRITER_LOCK, INBOX_LOCK = "writer.lock", "inbox.lock"
MANIFEST, BATCH = "manifest.json", "batch.json"
MODEL, INFERENCE, NAMES, KNOWN, HOLD_OUT_FILE = (
    f"{name}.safetensors" for name in ("model", "inference", "names", "known", "hold_out")
)
OWN = (STORE, TAGS, SKIPPED, VERSIONS, INBOX, LEARNING, DAMAGED, WRITER_LOCK, INBOX_LOCK, SET_ASIDE)
"""What is in the folder of a store and must not be a link."""
OLD_FILES = {"answering.safetensors": INFERENCE, "exam.safetensors": HOLD_OUT_FILE}
"""File name in a version that release 0.1 wrote → its name now."""
BATCH_NAME = r"(\d{8}|[1-9]\d{8,})\.json"
ENTITY, RELATION = "entity", "relation"
"""The inference tables in `INFERENCE`."""
TABLE = "tables.entity"
"""The entity rows of the model in `MODEL`."""

Read = TypeVar("Read")


class Store:
    """The folder of a living graph, and its folders of versions and of batches that wait. It holds
    no state but the paths."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.folder_of_versions, self.inbox = self.folder / VERSIONS, self.folder / INBOX
        if not self.folder_of_versions.is_dir():
            raise RunError(f"{folder}: not a store: no versions there; make one with `lkge init`")
        for name in OWN:
            if (self.folder / name).is_symlink():
                raise RunError(
                    f"{self.folder / name}: a symbolic link, and what is behind it is not of this "
                    "store; remove the link"
                )

    @classmethod
    def create(
        cls,
        folder: Path | str,
        config: Mapping[str, Any],
        options: Options,
        files: Mapping[str, Arrays],
        manifest: Manifest,
    ) -> Self:
        """A new store with version 0. The folder must be new or empty; it appears atomically."""
        folder = Path(folder)
        with disk.as_run_error(folder):
            if folder.exists() and any(folder.iterdir()):
                raise RunError(f"{folder}: not empty; choose another folder")
            disk.make_folders(folder.parent)
            with disk.unfinished_folder(folder) as temporary:
                for name in (VERSIONS, INBOX):
                    (temporary / name).mkdir()
                store = cls(temporary)
                store.write_root(config, options)
                store.publish(0, files, manifest)
        return cls(folder)

    @property
    def config(self) -> RunConfig:
        """The settings that the store was made with."""
        return from_tree(self._root().config)

    @property
    def options(self) -> Options:
        """The options that the store was made with."""
        return self._root().options

    def write_root(self, config: Mapping[str, Any], options: Options) -> None:
        """Write `store.json`."""
        records.write_record(self.folder / STORE, records.Root(dict(config), options))

    def versions(self) -> list[int]:
        """The numbers of all versions, damaged ones too, ascending."""
        return _numbers(self.folder_of_versions, r"(\d{6}|[1-9]\d{6,})")

    @property
    def tags(self) -> dict[str, int]:
        """The version of each tag."""
        return read_tags(self.folder)

    @property
    def skipped(self) -> dict[int, SkippedBatch]:
        """The batches that led to no version, by number."""
        return skipped_batches(self.folder)

    def number_of(self, version: int | str) -> int:
        """The number of a version that is on the disk, given by its number or by a tag."""
        if isinstance(version, str) and not re.fullmatch(r"-?\d{1,18}", version, re.ASCII):
            version = version_of_tag(self.folder, version)
        if (number := int(version)) not in (kept := self.versions()):
            there = ", ".join(map(str, kept))
            raise RunError(f"{self.folder}: there is no version {number}; there are: {there}")
        return number

    def folder_of(self, version: int) -> Path:
        """Where a version is, or will be."""
        return self.folder_of_versions / f"{version:06d}"

    def batch_numbers(self) -> list[int]:
        """The numbers of all batches in the inbox, ascending."""
        return _numbers(self.inbox, BATCH_NAME)

    def batch_file(self, number: int) -> Path:
        """Where a batch waits."""
        return self.inbox / f"{number:08d}.json"

    def set_aside_numbers(self) -> list[int]:
        """The numbers of the batches that were set aside, ascending."""
        folder = self.folder / SET_ASIDE
        return _numbers(folder, BATCH_NAME) if folder.is_dir() else []

    def set_aside_file(self, number: int) -> Path:
        """Where a batch is kept that does not wait."""
        return self.folder / SET_ASIDE / self.batch_file(number).name

    def manifest(self, version: int) -> Manifest:
        """What a version is; its checksum is verified."""
        path = self.folder_of(version) / MANIFEST
        manifest = records.read_record(path, Manifest)
        if manifest.version != version:
            raise DamagedFile(f"{path}: is of version {manifest.version}; restore it")
        return manifest

    def is_whole(self, version: int) -> bool:
        """Whether the manifest is intact and all files are there, no links, with their sizes; no
        file is read. NewerFormat if a newer release wrote it."""
        folder = self.folder_of(version)
        try:
            if folder.is_symlink():
                return False
            files = self.manifest(version).files.items()
            return all(_is_file_of_size(folder / name, file.bytes) for name, file in files)
        except NewerFormat:
            raise
        except (OSError, RunError):
            return False

    def newest(self) -> int:
        """The newest complete version, as `is_whole` finds."""
        seen: list[int] = []
        while seen != (present := self.versions()):  # a writer may publish and prune meanwhile
            for version in reversed(present):
                if self.is_whole(version):
                    return version
            seen = present
        raise DamagedFile(f"{self.folder}: no version is whole; restore the folder from a backup")

    def at_newest(self, read: Callable[[int], Read]) -> Read:
        """`read(version)` with the newest version; again, if that was pruned before it was read."""
        while True:
            version = self.newest()
            try:
                return read(version)
            except (LkgeError, OSError):
                if self.folder_of(version).exists():
                    raise

    def next_version(self) -> int:
        """The number to publish; a damaged version in its place must be repaired first."""
        newest, last = self.newest(), self.versions()[-1]
        if last > newest:
            raise DamagedFile(
                f"{self.folder_of(last)}: damaged; `lkge check --repair` sets it aside, "
                "and what it had learned is learned again"
            )
        return newest + 1

    def publish(self, version: int, files: Mapping[str, Arrays], manifest: Manifest) -> None:
        """Publish a version atomically: readers see all of it or nothing.

        `files` are arrays by file name; their checksums go into the manifest. A version of kind
        `add` or `edit` takes its batch from the inbox. Then versions that need not stay are
        removed.
        """
        target, options = self.folder_of(version), self.options
        expected = self.next_version() if self.versions() else 0
        if not version == manifest.version == expected:
            raise RunError(f"{target}: cannot be published: version {expected} is next")
        record = manifest.log[-1]
        batch = _read(self.batch_file(record.batch)) if record.kind in records.WITH_BATCH else None
        with disk.as_run_error(target), disk.unfinished_folder(target) as place:
            checksums = {name: write_arrays(place / name, arrays) for name, arrays in files.items()}
            if batch is not None:
                with disk.as_run_error(place / BATCH):
                    disk.write_bytes_through(place / BATCH, batch)
                digest = hashlib.sha256(batch).hexdigest()
                checksums[BATCH] = records.FileChecksum(digest, len(batch))
            records.write_record(place / MANIFEST, dataclasses.replace(manifest, files=checksums))
        self.prune(options)

    def tidy(self) -> None:
        """Remove what crashes left behind, versions not to be kept, and batches that are learned.

        Only for who holds the writer's lock.
        """
        options = self.options
        disk.remove_leftovers(self.folder)
        disk.remove_leftovers(self.folder_of_versions)
        with disk.held(self.folder / INBOX_LOCK, wait=True):
            disk.remove_leftovers(self.inbox)
        last, skipped = self.manifest(self.newest()).last_batch, self.skipped
        for number in self.batch_numbers():
            if number <= last or number in skipped:
                disk.remove(self.batch_file(number))
        self._forget_stale_training()
        self.prune(options)

    def _forget_stale_training(self) -> None:
        """Remove checkpoints of updates of versions that are no longer the newest."""
        for folder in (self.folder / LEARNING).glob("*-*"):
            if not folder.name.startswith(f"{self.newest():06}-"):
                disk.remove(folder)

    def _root(self) -> records.Root:
        return records.read_record(self.folder / STORE, records.Root)

    def prune(self, options: Options) -> None:
        """Remove the versions that need not stay; none while the tags cannot be read."""
        try:
            tagged = set(self.tags.values())
        except RunError:
            return
        versions = self.versions()
        whole = [version for version in versions if self.is_whole(version)]
        now = datetime.now(UTC)
        for version in versions_to_remove(versions, whole, tagged, options, self._created, now):
            disk.remove_at_once(self.folder_of(version))

    def _created(self, version: int) -> datetime | None:
        """When a version was made; None if its manifest is damaged."""
        try:
            return created_time(self.manifest(version).log[-1].created)
        except RunError:
            return None


def _is_file_of_size(path: Path, size: int) -> bool:
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, follow=False)
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error


def _numbers(folder: Path, pattern: str) -> list[int]:
    """The numbers in those names in `folder` that are of the pattern, ascending."""
    try:
        found = (re.fullmatch(pattern, name, re.ASCII) for name in os.listdir(folder))
        return sorted(int(match[1]) for match in found if match)
    except OSError as error:
        raise RunError(f"{folder}: cannot be read: {error.strerror}") from error
