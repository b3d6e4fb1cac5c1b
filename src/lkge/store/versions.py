"""A living graph on disk: versions that share files, each published atomically.

    store.json                   settings and options
    tags.json                    names of versions
    labels.json                  texts that people read for names
    skipped.json                 batches that led to no version
    verified.json                the last version whose files were all read and found sound
    log.jsonl                    a line for each version (`lkge.store.log`)
    versions/000012.json         the manifest of a version: its files, and its part of the log
    data/000012-KIND-base.safetensors    arrays of a kind, all of them
    data/000012-KIND-delta.safetensors   what a version changed in them
    data/000012-batch.json       the batch that a version learned, to learn it again if need be
    inbox/00000001.json          accepted batches that are not learned yet
    learning/                    the checkpoint of the batch being learned
    set_aside/00000001.json      batches that are kept and do not wait (`lkge.store.queue`)
    damaged/                     what `repair` has set aside
    writer.lock, inbox.lock      held by who publishes, and by who accepts a batch

A file in `data` never changes. It is named after the version that wrote it, and stays as long as
the manifest of any version names it. A version is there when its manifest is: that is the last
thing to be written, by a rename.

Whoever publishes holds the writer's lock (`lkge.store.locks`). Readers hold nothing: they keep the
files that they have opened, and ask `Store.at_newest` to open others when those went away.
"""

import dataclasses
import hashlib
import os
import re
import stat
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from lkge.config import RunConfig
from lkge.configure import from_tree
from lkge.data import files as disk
from lkge.data.checked_json import read_checked_json
from lkge.data.reading import read_regular
from lkge.errors import (
    DamagedFile,
    DamageWarning,
    LkgeError,
    NewerFormat,
    RunError,
    StoreLocked,
)
from lkge.store import log, old_format, records
from lkge.store.array_files import ArrayFile
from lkge.store.content import DELTA, Content, written
from lkge.store.labels import (
    LABELS,
    LabelMap,
    changed_labels,
    current_labels,
    read_labels,
    write_labels,
)
from lkge.store.pruning import prune, sweep
from lkge.store.records import File, Manifest, Options, StoreConfig, VersionRecord
from lkge.store.skipped import SKIPPED, SkippedBatch, skipped_batches
from lkge.store.tags import TAGS, read_tags, version_of_tag
from lkge.store.verified import VERIFIED

STORE, LOG, VERSIONS, DATA = "store.json", "log.jsonl", "versions", "data"
INBOX, LEARNING, DAMAGED, SET_ASIDE = "inbox", "learning", "damaged", "set_aside"
WRITER_LOCK, INBOX_LOCK = "writer.lock", "inbox.lock"
MODEL, INFERENCE, NAMES, KNOWN, HOLD_OUT_FILE, BATCH = records.KINDS
RELEARN_REQUEST = "relearn.json"
OWN_FOLDERS = (VERSIONS, DATA, INBOX, LEARNING, DAMAGED, SET_ASIDE)
OWN_FILES = (STORE, LOG, WRITER_LOCK, INBOX_LOCK, TAGS, LABELS, SKIPPED, VERIFIED, RELEARN_REQUEST)
"""What is in the folder of a store, and is neither a link nor a pipe or device."""
BATCH_NAME = r"(\d{8}|[1-9]\d{8,})\.json"
ENTITY, RELATION = "entity", "relation"
"""The inference tables in `INFERENCE`."""
TABLE = "tables.entity"
"""The entity rows of the model in `MODEL`."""
SMALL = (HOLD_OUT_FILE,)
"""Kinds whose base files are small: they are verified as a whole when they are opened."""

Read = TypeVar("Read")


def require_own(folder: Path) -> None:
    """RunError if something in the folder of a store points outside or cannot be read."""
    for name in (*OWN_FOLDERS, *OWN_FILES):
        path, is_folder = folder / name, name in OWN_FOLDERS
        if path.is_symlink():
            raise RunError(
                f"{path}: a symbolic link, and what is behind it is not of this store; remove the "
                "link"
            )
        if path.exists() and not (path.is_dir() if is_folder else path.is_file()):
            kind = "folder" if is_folder else "file"
            raise RunError(f"{path}: not a {kind}; remove what is in its place")


class Store:
    """The folder of a living graph. It holds no state but the paths, and what it has verified."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.folder_of_versions, self.inbox = self.folder / VERSIONS, self.folder / INBOX
        self.data, self.log_file = self.folder / DATA, self.folder / LOG
        self._numbers = disk.Numbers(self.folder_of_versions, r"(\d{6}|[1-9]\d{6,})\.json")
        with disk.with_remedies(self.folder):
            self._require_store()
            self.format = self._format()
        self._sound: dict[tuple[object, ...], ArrayFile] = {}
        self._log: log.Log | None = None

    def _require_store(self) -> None:
        if not self.folder_of_versions.is_dir():
            raise RunError(
                f"{self.folder}: not a store: no versions there; make one with `lkge init`"
            )
        require_own(self.folder)

    @classmethod
    def create(
        cls,
        folder: Path | str,
        config: Mapping[str, Any],
        options: Options,
        files: Mapping[str, Content],
        manifest: Manifest,
    ) -> Self:
        """A new store with version 0. The folder must be new or empty; it appears atomically."""
        folder = Path(folder)
        with disk.as_run_error(folder):
            if folder.exists() and any(folder.iterdir()):
                raise RunError(f"{folder}: not empty; choose another folder")
            disk.make_folders(folder.parent)
            with disk.unfinished_folder(folder) as temporary:
                for name in (VERSIONS, DATA, INBOX):
                    (temporary / name).mkdir()
                store = cls(temporary)
                store.write_root(config, options)
                store.publish(0, files, manifest)
        return cls(folder)

    # Root

    @property
    def is_old(self) -> bool:
        """Whether the store is of format 1 or 2: a folder for each version."""
        return self.format.reader < records.FORMAT

    def require_writable(self) -> None:
        """An error that says why this release cannot write to the store: so say `store.json` and
        the newest manifest."""
        self.format = self._format()
        if self.is_old:
            raise RunError(
                f"{self.folder}: written in format {self.format.writer} by an older release, and "
                f"can only be read; run: lkge migrate {self.folder}"
            )
        for version in self.versions()[-1:]:
            try:
                self.manifest(version)
            except NewerFormat:
                raise
            except RunError as error:  # damage is found by what reads it
                if disk.is_passing(error):
                    raise
        if self.format.writer > records.FORMAT:
            raise NewerFormat(
                f"{self.folder}: written in format {self.format.writer} by a newer release, and "
                "can only be read; upgrade lkge to change it"
            )

    def _format(self) -> records.Format:
        path = self.folder / STORE
        try:
            return records.format_of(path, read_checked_json(path, follow=False).get("format"))
        except NewerFormat:
            raise
        except RunError:  # what is there says it
            is_old = bool(old_format.versions_in(self.folder_of_versions))
            return records.Format(2, 2) if is_old else records.Format(**records.THIS_FORMAT)

    @property
    def config(self) -> RunConfig:
        """The settings that the store was made with."""
        return from_tree(self._root().config)

    @property
    def options(self) -> Options:
        """The options that the store was made with."""
        return self._root().options

    def keeps_known(self, record: VersionRecord) -> bool:
        """Whether known facts are stored. If `store.json` is damaged, what a version says of it,
        and a DamageWarning."""
        try:
            return self.options.known
        except NewerFormat:
            raise
        except RunError as error:
            warnings.warn(str(error), DamageWarning, stacklevel=4)
            return record.known_facts > 0 or record.entities == 0

    def write_root(self, config: Mapping[str, Any], options: Options) -> None:
        """Write `store.json`."""
        records.write_record(self.folder / STORE, records.Root(dict(config), options))

    def _root(self) -> records.Root:
        return records.read_record(self.folder / STORE, records.Root)

    # Finding

    def versions(self) -> list[int]:
        """The numbers of all versions, damaged ones too, ascending."""
        if self.is_old:
            return old_format.versions_in(self.folder_of_versions)
        return self._numbers()

    @property
    def tags(self) -> dict[str, int]:
        """The version of each tag."""
        return read_tags(self.folder)

    @property
    def labels(self) -> LabelMap:
        """The labels of names; see `current_labels`."""
        return current_labels(self.folder)

    def add_labels(self, labels: Mapping[str, str], patience: float | None = None) -> None:
        """Set the labels of some names; an empty label removes one. They are on the disk when this
        returns. Any number of processes and threads may do so at once; with `patience`, StoreLocked
        if another holds the lock of the inbox for more than so many seconds."""
        if not labels:
            return
        self.require_writable()
        wait = True if patience is None else patience
        with disk.held(self.folder / INBOX_LOCK, wait=wait) as alone:
            if not alone:
                raise StoreLocked(f"{self.folder}: another process holds {INBOX_LOCK}; try again")
            before = read_labels(self.folder)
            after = changed_labels(before, labels)
            if after != before:
                write_labels(self.folder, after)

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

    def manifest_file(self, version: int) -> Path:
        """Where the manifest of a version is, or will be."""
        if self.is_old:
            return old_format.manifest_file(self.folder_of_versions, version)
        return self.folder_of_versions / f"{version:06d}.json"

    def batch_numbers(self) -> list[int]:
        """The numbers of all batches in the inbox, ascending."""
        return disk.numbers(self.inbox, BATCH_NAME)

    def batch_file(self, number: int) -> Path:
        """Where a batch waits."""
        return self.inbox / f"{number:08d}.json"

    def set_aside_numbers(self) -> list[int]:
        """The numbers of the batches that were set aside, ascending."""
        folder = self.folder / SET_ASIDE
        return disk.numbers(folder, BATCH_NAME) if folder.is_dir() else []

    def set_aside_file(self, number: int) -> Path:
        """Where a batch is kept that does not wait."""
        return self.folder / SET_ASIDE / self.batch_file(number).name

    def manifest(self, version: int) -> Manifest:
        """What a version is; its checksum is verified."""
        path = self.manifest_file(version)
        if self.is_old:
            manifest = old_format.read_manifest(path)[0]
        else:
            manifest, format_ = records.read_with_format(path, Manifest)
            self.format = max(self.format, format_)
        if manifest.version != version:
            raise DamagedFile(f"{path}: is of version {manifest.version}; restore it")
        return manifest

    def log(self, manifest: Manifest) -> Sequence[VersionRecord]:
        """The log up to a version."""
        if self.is_old:
            return old_format.read_manifest(self.manifest_file(manifest.version))[1]
        later = self.format.writer > records.FORMAT
        self._log = log.Log(self.log_file, manifest.log, with_unknown=later, before=self._log)
        return self._log

    def path_of(self, file: File) -> Path:
        """Where a file of a version is."""
        if self.is_old:
            return old_format.path_of(self.folder_of_versions, file.name)
        return self.data / file.name

    def paths(self, version: int, kind: str) -> list[Path]:
        """The files of one kind of a version, the base first."""
        return [self.path_of(file) for file in self.manifest(version).files.get(kind, ())]

    def opened(self, manifest: Manifest) -> dict[str, list[ArrayFile]]:
        """The files of arrays of a version by kind, mapped: deltas and small files verified, of
        others the header and the block checksums. DamagedFile if one is not as it must be."""
        files: dict[str, list[ArrayFile]] = {}
        sound: dict[tuple[object, ...], ArrayFile] = {}
        for kind, named in manifest.files.items():
            for file in named:
                found = _regular(self.path_of(file), file.bytes)
                if kind == BATCH:
                    continue
                key = (file.name, file.sha256, found.st_ino, found.st_mtime_ns)
                sound[key] = self._sound.get(key) or self._opened(kind, file)
                files.setdefault(kind, []).append(sound[key])
        self._sound = sound
        return files

    def _opened(self, kind: str, file: File) -> ArrayFile:
        """A file that was not opened before."""
        opened = ArrayFile(self.path_of(file), file, old=self.is_old)
        if kind in SMALL or f"-{DELTA}." in file.name:
            opened.verify()
        return opened

    def is_whole(self, version: int) -> bool:
        """Whether a version can be opened: what `opened` verifies is sound. NewerFormat if a newer
        release wrote it."""
        try:
            self.opened(self.manifest(version))
        except NewerFormat:
            raise
        except (OSError, RunError):
            return False
        return True

    def newest(self) -> int:
        """The newest version that can be opened."""

        def opened(version: int) -> int:
            self.opened(self.manifest(version))
            return version

        return self.newest_of(opened)

    def newest_of(self, read: Callable[[int], Read], *, warn: bool = False) -> Read:
        """`read(version)` with the newest version for which it raises no error that is one of its
        files; a DamageWarning if others are newer."""
        while True:
            state, problems = self._state(), list[tuple[int, Exception]]()
            for version in reversed(state[0]):
                try:
                    found = read(version)
                except NewerFormat:
                    raise
                except (LkgeError, OSError) as error:
                    if disk.is_passing(error):
                        raise
                    problems.append((version, error))
                    continue
                break
            else:
                found = None
            if problems and state != self._state():  # a writer publishes, prunes or compacts
                continue
            if found is None:
                raise DamagedFile(
                    f"{self.folder}: no version is whole; restore the folder from a backup"
                )
            if warn and problems:
                _warn(*problems[0], version)
            return found

    def at_newest(self, read: Callable[[int], Read]) -> Read:
        """`read(version)` with the newest version; again, if that was pruned before it was read."""
        while True:
            state, version = self._state(), self.newest()
            try:
                return read(version)
            except (LkgeError, OSError):
                if state == self._state():
                    raise

    def _state(self) -> tuple[list[int], int]:
        """The versions and the age of the newest manifest: it is replaced in a compaction."""
        versions = self.versions()
        try:
            return versions, self.manifest_file(max(versions, default=0)).stat().st_mtime_ns
        except OSError:
            return versions, 0

    def next_version(self) -> int:
        """The number to publish; a damaged version in its place must be repaired first."""
        newest, last = self.newest(), self.versions()[-1]
        if last > newest:
            raise DamagedFile(
                f"{self.manifest_file(last)}: damaged; `lkge verify --repair` sets it aside, "
                "and what it had learned is learned again"
            )
        return newest + 1

    # Writing

    def publish(
        self,
        version: int,
        contents: Mapping[str, Content],
        manifest: Manifest,
        config: StoreConfig | None = None,
    ) -> None:
        """Publish a version atomically: readers see all of it or nothing.

        `contents` are arrays by kind; of other kinds the version has the files that the manifest
        names already. A version of kind `add` or `edit` takes its batch from the inbox. Then
        versions that need not stay are removed.
        """
        target, options = self.manifest_file(version), self.options
        expected = self.next_version() if self.versions() else 0
        if not version == manifest.version == expected:
            raise RunError(f"{target}: cannot be published: version {expected} is next")
        position = self.manifest(version - 1).log if version else records.LogPosition()
        files = {kind: each for kind, each in manifest.files.items() if kind != BATCH}
        record, config = manifest.record, config or StoreConfig()
        with disk.as_run_error(target):
            if record.kind in records.WITH_BATCH:
                files[BATCH] = (self._write_batch(version, record.batch),)
            for kind, content in contents.items():
                before = files.get(kind, ())
                files[kind] = written(self.data, version, kind, content, before, config)
            disk.sync_folder(self.data)
            position = log.append(self.log_file, position, record)
            records.write_record(target, dataclasses.replace(manifest, files=files, log=position))
        prune(self, options)

    def _write_batch(self, version: int, number: int) -> File:
        batch, path = _read(self.batch_file(number)), self.data / f"{version:06d}-{BATCH}.json"
        disk.remove(path)
        with disk.as_run_error(path):
            disk.write_bytes_through(path, batch)
        return File(hashlib.sha256(batch).hexdigest(), len(batch), path.name)

    def replace_manifest(self, manifest: Manifest) -> None:
        """Give a version other files with the same content; readers have the old or the new."""
        with disk.as_run_error(self.manifest_file(manifest.version)):
            disk.sync_folder(self.data)
            records.write_record(self.manifest_file(manifest.version), manifest)
        sweep(self)

    def tidy(self) -> None:
        """Remove what crashes left behind, versions not to be kept, and batches that are learned.

        Only for who holds the writer's lock.
        """
        options = self.options
        disk.remove_leftovers(self.folder)
        disk.remove_leftovers(self.folder_of_versions)
        with disk.held(self.folder / INBOX_LOCK, wait=True):
            disk.remove_leftovers(self.inbox)
        newest, skipped = self.newest(), self.skipped
        last = self.manifest(newest).last_batch
        for number in self.batch_numbers():
            if number <= last or number in skipped:
                disk.remove(self.batch_file(number))
        for folder in (self.folder / LEARNING).glob("*-*"):  # checkpoints of updates of others
            if not folder.name.startswith(f"{newest:06}-"):
                disk.remove(folder)
        prune(self, options)


def _warn(damaged: int, error: Exception, version: int) -> None:
    """Say that an older version answers."""
    warnings.warn(
        f"version {damaged} is damaged, and version {version} is used: {error}",
        DamageWarning,
        stacklevel=4,
    )


def _regular(path: Path, size: int) -> os.stat_result:
    """What is known of a file; DamagedFile if it is no file, behind a link or of another size."""
    try:
        found = path.lstat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise DamagedFile(f"{path}: {'missing' if missing else disk.reason_of(error)}") from error
    if not stat.S_ISREG(found.st_mode):
        raise DamagedFile(f"{path}: not a file")
    if found.st_size != size:
        wrong = "truncated" if found.st_size < size else "too long"
        raise DamagedFile(f"{path}: {wrong}: {found.st_size} of {size} bytes")
    return found


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, follow=False)
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {disk.reason_of(error)}") from error
