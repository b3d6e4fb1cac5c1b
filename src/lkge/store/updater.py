"""Updates one after another: what waits is learned, and each version is published.

Torch is imported when something is trained.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lkge.errors import DataError, LearningFailed, SettingsError
from lkge.store.compaction import compact, verify_version
from lkge.store.content import Content, compaction_due
from lkge.store.editing import version_with_names
from lkge.store.inbox import FactBatch, discard, waiting
from lkge.store.open_version import OpenVersion
from lkge.store.queue import damaged_batches, set_aside
from lkge.store.reader import Reader
from lkge.store.records import ADD, CONSOLIDATE, Manifest, StoreConfig, VersionRecord
from lkge.store.skipped import note_skipped, nothing_new, record_of_nothing
from lkge.store.update_split import UpdateSplit
from lkge.store.versions import KNOWN, LEARNING, NAMES
from lkge.training.events import BatchSkipped, Listener, RunStarted, VersionPublished
from lkge.training.interrupt import stops_between_steps

if TYPE_CHECKING:
    from lkge.store.update import Update
    from lkge.training.checkpoint import Checkpoints


def consolidation_due(reader: Reader) -> bool:
    """Whether so much was added that all known facts should be trained on again."""
    from lkge.store.consolidation import epochs_due

    return epochs_due(reader) > 0


@dataclass(frozen=True)
class Updater:
    """Learns and publishes for who holds the writer's lock. Afterwards the newest version is open
    in `opened`."""

    opened: OpenVersion
    store_config: StoreConfig
    listener: Listener

    @property
    def reader(self) -> Reader:
        """The open version."""
        return self.opened.reader

    def learn_waiting(self, consolidate: bool = True) -> list[VersionRecord]:
        """All batches, each a version. A consolidation that is due comes before the next batch, so
        that the same batches give the same versions whoever learns them."""
        learned = self._set_damaged_aside()
        for batch in waiting(self.opened.store):
            self.opened.go_to_last()
            learned += self.consolidate_or_compact()
            learned.append(self._tried(partial(self._learn, batch), batch.number, batch.source))
        self.opened.refresh()
        if consolidate:
            learned += self.consolidate_or_compact()
        return learned

    def consolidate_or_compact(self) -> list[VersionRecord]:
        """What is due; a consolidation writes all tables, so that nothing is left to compact."""
        if consolidation_due(self.reader):
            verify_version(self.opened.store, self.reader.version)
            return [self._tried(self._consolidate, 0)]
        self.compact(compaction_due(self.reader.manifest, self.store_config))
        return []

    def compact(self, kinds: list[str]) -> list[str]:
        """Write these kinds of the newest version without deltas; the kinds."""
        if kinds:
            compact(self.reader, kinds)
            self.opened.refresh()
        return kinds

    def relearn(self) -> VersionRecord:
        """Learn all known facts at once, from scratch; a version of its own."""
        from lkge.store.relearn import relearning

        self.opened.go_to_last()
        self.reader.verify_once(NAMES, KNOWN)
        update = relearning(self.reader, self.store_config, self.listener)
        files, manifest = self._trained(update, update.split())
        return self._published(0, files, manifest, update.checkpoints)

    def _consolidate(self) -> VersionRecord:
        """Train on all known facts again; a version of its own."""
        from lkge.store.consolidation import Consolidation, empty_batch
        from lkge.training.checkpoint import Checkpoints

        self.opened.go_to_last()
        batch = empty_batch(self.reader)
        checkpoints = Checkpoints(self._place(batch, CONSOLIDATE))
        update = Consolidation(self.reader, batch, self.store_config, self.listener, checkpoints)
        files, manifest = self._trained(update, update.split())
        return self._published(batch.number, files, manifest, checkpoints)

    def _learn(self, batch: FactBatch) -> VersionRecord:
        """One batch becomes one version, unless nothing in it is new."""
        from lkge.store.update import Update
        from lkge.training.checkpoint import Checkpoints

        self.opened.go_to_last()
        checkpoints = Checkpoints(self._place(batch, ADD))
        self.reader.verify_once(NAMES, KNOWN)
        update = Update(self.reader, batch, self.store_config, self.listener, checkpoints)
        try:
            split = update.split()
        except (DataError, SettingsError) as error:
            if batch.edit is not None:
                return self._skip(batch, str(error), failed=True)
            if isinstance(error, SettingsError):
                raise
            raise LearningFailed(str(error)) from error
        if split.is_empty and batch.edit is None:
            return self._skip(batch, self._nothing_new(batch))
        if split.is_empty:
            files, manifest = version_with_names(self.reader, batch, split.names)
        else:
            files, manifest = self._trained(update, split)
        return self._published(batch.number, files, manifest, checkpoints)

    def _place(self, batch: FactBatch, kind: str) -> Path:
        """Where the checkpoint of an update is."""
        folder, version = self.opened.store.folder, self.reader.version
        return folder / LEARNING / f"{version:06}-{batch.number:08}-{kind}"

    def _trained(self, update: Update, split: UpdateSplit) -> tuple[dict[str, Content], Manifest]:
        """Run an update; the kernels are compiled before the first one."""
        from lkge.training.warmup import warm_up

        folder, config = self.opened.store.folder, self.reader.config
        warm_up(config, self.listener)
        name, method = folder.name, config.method.name
        self.listener(RunStarted(name, method, split.index + 1, snapshot=0, epochs_done=0))
        try:
            with stops_between_steps():
                return update.run(split)
        except LearningFailed as error:
            rate = config.training.learning_rate / 2
            setting = f"training.learning_rate={rate:.3g}"
            remedy = shlex.join(["lkge", "config", str(folder), "--set", setting])
            raise LearningFailed(f"{error}: {remedy}") from error

    def _published(
        self, batch: int, files: Mapping[str, Content], manifest: Manifest, checkpoints: Checkpoints
    ) -> VersionRecord:
        """Publish a version; its batch leaves the inbox, 0 is none."""
        store = self.opened.store
        store.publish(manifest.version, files, manifest, self.store_config)
        if batch:
            discard(store, batch)
        checkpoints.remove()
        self.opened.go_to_last()
        self.listener(VersionPublished(self.reader.version, batch))
        return self.reader.record

    # Batches that lead to no version

    def _skip(self, batch: FactBatch, message: str, failed: bool = False) -> VersionRecord:
        """Note that a batch led to no version, and discard it; a record that says so."""
        store, number = self.opened.store, batch.number
        version = self.reader.version
        note_skipped(store.folder, number, version, message, batch.accepted, failed=failed)
        discard(store, number)
        self.listener(BatchSkipped(number, message, failed))
        record = self.reader.record
        return record_of_nothing(record, number, batch.source, message, failed=failed)

    def _nothing_new(self, batch: FactBatch) -> str:
        known = self.opened.store.options.known
        return nothing_new(len(batch.added), len(batch.retracted), known)

    def _set_damaged_aside(self) -> list[VersionRecord]:
        """No batch waits behind one whose file is damaged."""
        return [
            self._set_aside(number, f"{reason}; it is set aside")
            for number, reason in damaged_batches(self.opened.store).items()
        ]

    def _tried(
        self, learn: Callable[[], VersionRecord], batch: int, source: str = ""
    ) -> VersionRecord:
        """What `learn` returns. If training fails, the batch is set aside, so that others go on."""
        try:
            return learn()
        except LearningFailed as error:
            if not batch:
                return self._failed(0, f"the consolidation failed: {error}")
            folder = str(self.opened.store.folder)
            again = shlex.join(["lkge", "queue", folder, "--restore", str(batch)])
            message = f"batch {batch} is set aside: {error}. To learn it again: {again}"
            return self._set_aside(batch, message, source)

    def _set_aside(self, number: int, message: str, source: str = "") -> VersionRecord:
        set_aside(self.opened.store, number, message)
        return self._failed(number, message, source)

    def _failed(self, number: int, message: str, source: str = "") -> VersionRecord:
        self.listener(BatchSkipped(number, message, failed=True))
        return record_of_nothing(self.reader.record, number, source, message, failed=True)
