"""A living graph: facts in, answers out, version after version, in one folder.

What learns is imported when something is learned: it needs torch, and questions do not.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from lkge.config import RunConfig
from lkge.data.columns import GivenColumns
from lkge.data.rows import SHOWN, Row, Rows, html_table
from lkge.data.sources import Source, joined, labels_in, read_source
from lkge.errors import (
    DamagedFile,
    DataError,
    LearningFailed,
    RunError,
    SettingsError,
    packages_named,
)
from lkge.store.checking import Damage, check
from lkge.store.compaction import compact, verify_version
from lkge.store.content import Content, compaction_due
from lkge.store.contradictions import names_damage
from lkge.store.editing import require_possible, version_with_names
from lkge.store.edits import Pair, edit_of
from lkge.store.explaining import explain
from lkge.store.export import export
from lkge.store.finding import find
from lkge.store.health import FIGURES, Health, health
from lkge.store.inbox import FactBatch, accept, discard, waiting
from lkge.store.locks import writing
from lkge.store.preview import Preview, preview
from lkge.store.queue import QueuedBatch, damaged_batches, queue, restore, set_aside
from lkge.store.reader import Reader, open_reader
from lkge.store.records import (
    ADD,
    COMPACT,
    CONFIG,
    CONSOLIDATE,
    FAILED,
    ROLLBACK,
    Manifest,
    Options,
    StoreConfig,
    VersionRecord,
    now,
)
from lkge.store.relations import predict_relations
from lkge.store.retention import changed_options
from lkge.store.skipped import note_skipped, nothing_new, record_of_nothing
from lkge.store.suggesting import suggest
from lkge.store.tags import add_tag, delete_tag
from lkge.store.update_split import UpdateSplit
from lkge.store.versions import KNOWN, LEARNING, NAMES, Store
from lkge.training.events import (
    BatchSkipped,
    Listener,
    RunStarted,
    VersionPublished,
    by_default,
    heard,
)
from lkge.training.interrupt import stops_between_steps

if TYPE_CHECKING:
    from lkge.store.initial import InitialVersion
    from lkge.store.update import Update
    from lkge.training.checkpoint import Checkpoints

P = ParamSpec("P")
R = TypeVar("R")


def _rows_of_open_version(
    query: Callable[Concatenate[Reader, P], Sequence[Row]],
) -> Callable[Concatenate[LivingGraph, P], Rows[Row]]:
    """The same of a query whose answers are named tuples."""

    @wraps(query)
    def asked(graph: LivingGraph, /, *args: P.args, **kwargs: P.kwargs) -> Rows[Row]:
        return Rows(query(graph._answering(), *args, **kwargs))

    return asked


def _of_open_version(
    query: Callable[Concatenate[Reader, P], R],
) -> Callable[Concatenate[LivingGraph, P], R]:
    """A query of a reader as a query of a living graph, to the version that is open."""

    @wraps(query)
    def asked(graph: LivingGraph, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return query(graph._answering(), *args, **kwargs)

    return asked


def _heard(
    learn: Callable[Concatenate[LivingGraph, P], R],
) -> Callable[Concatenate[LivingGraph, P], R]:
    """The same, with the listener that is given or chosen; see `heard`."""
    parameters = signature(learn)

    @wraps(learn)
    def learning(graph: LivingGraph, /, *args: P.args, **kwargs: P.kwargs) -> R:
        bound = parameters.bind(graph, *args, **kwargs)
        given = bound.arguments.get("listener", by_default)
        with heard(given, graph.config.training.patience) as listener, packages_named():
            bound.arguments["listener"] = listener
            return learn(*bound.args, **bound.kwargs)

    return learning


class LivingGraph:
    """The doors of a store. Questions go to the version that is open, which stays the same until
    this object adds, rolls back or refreshes. What learns shows its progress in a terminal or a
    notebook, unless it has a `listener`."""

    def __init__(
        self,
        folder: Path | str,
        version: int | str | None = None,
        store_config: StoreConfig | None = None,
    ) -> None:
        self.store_config = store_config or StoreConfig()
        self.reader: Reader = open_reader(folder, version)
        self.store: Store = self.reader.store
        self._is_newest = version is None
        self._is_warm = False

    @property
    def version(self) -> int:
        """The number of the open version."""
        return self.reader.version

    @property
    def config(self) -> RunConfig:
        """How this graph is learned."""
        return self.reader.config

    def _answering(self) -> Reader:
        """The open version, verified as far as it answers. If it is damaged, the newest one that is
        not, unless a version was asked for."""
        try:
            self.reader.verify_answers()
        except DamagedFile:
            if not self._is_newest:
                raise
            self.reader = open_reader(self.store.folder, to_answer=True)
        return self.reader

    predict = _rows_of_open_version(Reader.predict)
    similar = _rows_of_open_version(Reader.similar)
    score = _rows_of_open_version(Reader.score)
    neighbourhood = _rows_of_open_version(Reader.neighbourhood)
    facts = _rows_of_open_version(Reader.facts)
    entities = _of_open_version(Reader.entities)
    predict_relations = _rows_of_open_version(predict_relations)
    suggest = _of_open_version(suggest)
    explain = _of_open_version(explain)
    find = _rows_of_open_version(find)
    relations = _of_open_version(Reader.relations)
    vectors = _of_open_version(Reader.vectors)

    @property
    def labels(self) -> Mapping[str, str]:
        """The label of each name that has one."""
        return self.store.labels

    def label(self, labels: Mapping[str, str]) -> None:
        """Set the labels of some names; an empty label removes one. No version is made."""
        self.store.add_labels(labels)

    def __len__(self) -> int:
        """The number of entities, without removed ones."""
        return self.reader.num_entities - len(self.reader.removed)

    def __contains__(self, name: object) -> bool:
        """Whether there is an entity of that name."""
        table = self.reader.names.entity_table
        return isinstance(name, str) and bool(name) and table.find(name) is not None

    def __bool__(self) -> bool:
        """True, whatever the graph has."""
        return True

    def __repr__(self) -> str:
        return f"<LivingGraph {self._title()}: {self._sizes()}>"

    def _repr_html_(self) -> str:
        columns = ("version", "kind", "facts", "MRR of added facts", "MRR of kept facts", "health")
        rows = [
            (each.version, each.kind, each.facts, each.mrr_new, each.mrr_old, each.verdict)
            for each in self.log()[-SHOWN:][::-1]
        ]
        return html_table(f"{self._title()}: {self._sizes()}", columns, rows)

    def _title(self) -> str:
        config = self.config
        how = f"{config.method.name} on {config.model.score}"
        return f"{self.store.folder}, version {self.version} ({how})"

    def _sizes(self) -> str:
        reader = self.reader
        sizes = f"{len(self):,} entities, {reader.num_relations:,} relations"
        return f"{sizes}, {reader.num_facts:,} known facts"

    def log(self) -> tuple[VersionRecord, ...]:
        """What happened, version by version."""
        return tuple(self.reader.log)

    def health(self) -> Health:
        """Whether the open version is as good as its baseline, with figures and the remedy."""
        return health(self.reader)

    @property
    def compaction_due(self) -> list[str]:
        """The kinds of files whose changes should be written into new base files."""
        return compaction_due(self.reader.manifest, self.store_config)

    def compact(self) -> list[str]:
        """Write the newest version without deltas, the content unchanged; the kinds of files that
        were written."""
        with writing(self.store, COMPACT):
            self.store.tidy()
            self._open_last()
            files = self.reader.manifest.files
            return self._compact([kind for kind, each in files.items() if len(each) > 1])

    def _compact(self, kinds: list[str]) -> list[str]:
        if kinds:
            compact(self.reader, kinds)
            self.refresh()
        return kinds

    def check(self) -> list[Damage]:
        """Every file that is not as it was written."""
        return check(self.store)

    def export(self, folder: Path | str, format: str = "parquet") -> list[Path]:
        """Write all rows with their names into a new folder; see `lkge.store.export`."""
        return export(self.reader, folder, format)

    @names_damage
    def refresh(self) -> bool:
        """Go to the newest version; whether that is another one."""
        newest, version = self.store.newest(), self.version
        if not self._is_open(newest):
            self.reader = open_reader(self.store.folder)
        return self.version != version

    def _is_open(self, version: int) -> bool:
        """Whether that version is open, with the files that it has now: a compaction may have given
        it others."""
        files = self.reader.manifest.files
        return version == self.version and self.store.manifest(version).files == files

    def _open_last(self) -> None:
        """Go to the newest version, which must be whole: the next one is built on it."""
        last = self.store.next_version() - 1
        if not self._is_open(last):
            self.reader = open_reader(self.store.folder, last)

    @_heard
    def add(
        self,
        facts: Source,
        *,
        retract: Source = (),
        valid: float | None = None,
        columns: GivenColumns = None,
        format: str | None = None,
        source: str = "python",
        consolidate: bool = True,
        listener: Listener = by_default,
    ) -> VersionRecord:
        """Learn new facts, and forget those that no longer hold; the line of the log.

        Both are triples of names, files or folders of facts, or an object such as a data frame
        (`lkge.data.sources`), whose labels are kept; `columns` and `format` are as for
        `lkge.preview`. They are on the disk before learning begins; if it is interrupted, the next
        `add` or `learn_waiting` learns them first. If nothing is new, no version is published: the
        record has the kind "nothing", the number of the current version, and a warning that says
        so. If a consolidation is due afterwards, it follows, unless `consolidate` is false: then
        `consolidate()` or the next `add` does it.
        """
        parts = read_source(facts, columns, format)
        added, gone = joined(parts), joined(retract, columns, format)
        with writing(self.store, "add", listener):
            self.store.tidy()
            self.store.next_version()  # facts that could not be learned now are not taken in
            share = self.store_config.hold_out_fraction if valid is None else valid
            batch = accept(self.store, added, gone, share, source)
            self.store.add_labels(labels_in(parts))
            records = self._learn_waiting(listener, consolidate)
        record = next(record for record in records if record.batch == batch.number)
        if record.kind == FAILED:
            raise LearningFailed(record.warnings[0])
        return record

    def preview(
        self, facts: Source, *, columns: GivenColumns = None, format: str | None = None
    ) -> Preview:
        """What `add` would find in these facts, and what of it is new; nothing is changed."""
        return preview(read_source(facts, columns, format), self.reader)

    @_heard
    def learn_waiting(self, listener: Listener = by_default) -> list[VersionRecord]:
        """Learn all facts that were accepted and not learned yet."""
        with writing(self.store, "add", listener):
            self.store.tidy()
            return self._learn_waiting(listener)

    @property
    def consolidation_due(self) -> bool:
        """Whether so much was added that all known facts should be trained on again."""
        from lkge.store.consolidation import epochs_due

        return epochs_due(self.reader) > 0

    @_heard
    def consolidate(self, listener: Listener = by_default) -> VersionRecord | None:
        """Train on all known facts again if that is due, or compact if that is due; the line of
        the log of a new version."""
        with writing(self.store, CONSOLIDATE, listener):
            self.store.tidy()
            self._open_last()
            return next(iter(self._consolidate_or_compact(listener)), None)

    @_heard
    def edit(
        self,
        *,
        remove: str | None = None,
        rename: Pair | None = None,
        rename_relation: Pair | None = None,
        merge: Pair | None = None,
        consolidate: bool = True,
        listener: Listener = by_default,
    ) -> VersionRecord:
        """Change one name; the line of the log. Facts that wait are learned first.

        `remove` is an entity that goes with all its facts. `rename` is (old, new) of an entity,
        `rename_relation` of a relation; rows and facts stay. `merge` is (old, into): the facts of
        the first become facts of the second, and the first is removed. The edit is on the disk
        before learning begins, as facts are. `consolidate`: see `add`.
        """
        edit = edit_of(remove, rename, rename_relation, merge)
        with writing(self.store, "edit", listener):
            self.store.tidy()
            self._learn_waiting(listener, consolidate=False)
            self._open_last()
            require_possible(edit, self.reader)
            share = self.store_config.hold_out_fraction
            batch = accept(self.store, (), valid=share, source=str(edit), edit=edit)
            records = self._learn_waiting(listener, consolidate)
        record = next(record for record in records if record.batch == batch.number)
        if not record.is_version:  # another process added facts just before
            raise DataError(record.warnings[0])
        return record

    @property
    @names_damage
    def tags(self) -> dict[str, int]:
        """The version of each tag."""
        return self.store.tags

    def tag(self, name: str, version: int | str | None = None) -> int:
        """Give a version, default the newest, a name; its number. It is never pruned."""
        with writing(self.store, "tag"):
            chosen = self.store.newest() if version is None else self.store.number_of(version)
            add_tag(self.store.folder, name, chosen)
        return chosen

    def delete_tag(self, name: str) -> int:
        """Delete a tag; the version that had it. The version may be pruned by the next update."""
        with writing(self.store, "tag --delete"):
            return delete_tag(self.store.folder, name)

    def keep(self, versions: int | None = None, days: int | None = None) -> Options:
        """Change how many versions stay on the disk at least, and for how many days each stays at
        least; the options. Versions that need not stay are removed."""
        with writing(self.store, "keep"):
            options = changed_options(self.store.options, versions, days)
            self.store.write_root(self.store.config.to_dict(), options)
            self.store.prune(options)
        return options

    def rollback(self, version: int | str) -> VersionRecord:
        """Publish an old version anew, as the newest; the line of the log."""
        with writing(self.store, "rollback"):
            self.store.tidy()
            if any(batch.waits for batch in queue(self.store)):
                folder = self.store.folder
                raise RunError(
                    f"{folder}: facts wait to be learned; run: lkge add {folder}, "
                    f"or set them aside: lkge queue {folder} --set-aside NUMBER"
                )
            self._open_last()
            target = open_reader(self.store.folder, version)
            target.verify()
            return self._publish_again(target)

    @names_damage
    def queue(self) -> list[QueuedBatch]:
        """The batches that are not learned: those that wait, in order, and those set aside."""
        return queue(self.store)

    def set_aside(self, number: int) -> None:
        """Take a batch out of the queue; it is kept, and `restore` brings it back."""
        with writing(self.store, "queue --set-aside"):
            set_aside(self.store, number, "set aside by request")

    def restore(self, number: int) -> int:
        """Let a batch that was set aside wait again; its new number."""
        with writing(self.store, "queue --restore"):
            return restore(self.store, number).number

    def configure(self, changes: Mapping[str, Any]) -> VersionRecord:
        """Publish a version with other settings and the same embeddings; the line of the log.
        Settings that the embeddings depend on cannot change."""
        from lkge.store.settings import changed_config, described

        with writing(self.store, "config"):
            self.store.tidy()
            self._open_last()
            config = changed_config(self.config, changes, self.store.options.known)
            return self._publish_again(self.reader, CONFIG, described(changes), config)

    @_heard
    def relearn(self, listener: Listener = by_default) -> VersionRecord:
        """Learn all known facts at once, from scratch with the settings of the graph, as a new
        version; the line of the log. Held-out facts stay held out, and ids stay as they are. If it
        is interrupted, the next `relearn` of the same version goes on."""
        from lkge.store.relearn import relearning

        with writing(self.store, "relearn", listener):
            self.store.tidy()
            self._open_last()
            self.reader.verify_once(NAMES, KNOWN)
            update = relearning(self.reader, self.store_config, listener)
            files, manifest = self._trained(update, update.split(), listener)
            return self._published(0, files, manifest, update.checkpoints, listener)

    def _publish_again(
        self,
        target: Reader,
        kind: str = ROLLBACK,
        source: str = "",
        config: RunConfig | None = None,
    ) -> VersionRecord:
        """Publish the content of an old version, or of this one, as a new version; the log goes on.
        `config` replaces the settings."""
        newest, old = self.reader, target.record
        record = VersionRecord(
            version=newest.version + 1,
            kind=kind,
            created=now(),
            new_entities=target.num_entities - newest.num_entities,
            new_relations=target.num_relations - newest.num_relations,
            entities=old.entities,
            relations=old.relations,
            known_facts=old.known_facts,
            mrr_new=old.mrr_new,
            mrr_old=old.mrr_old,
            removed=old.removed,
            candidates=old.candidates,
            drift=0.0,
            source=source or f"version {target.version}",
            verdict=old.verdict,
            causes=old.causes,
            **{name: getattr(old, name) for name in FIGURES},
        )
        manifest = target.manifest.next(
            record,
            last_batch=newest.manifest.last_batch,
            facts_since_consolidation=newest.manifest.facts_since_consolidation,
        )
        if config is not None:
            manifest = dataclasses.replace(manifest, config=config.to_dict())
        self.store.publish(manifest.version, {}, manifest)
        self._open_last()
        return self.reader.record

    def _learn_waiting(self, listener: Listener, consolidate: bool = True) -> list[VersionRecord]:
        """All batches, each a version. A consolidation that is due comes before the next batch, so
        that the same batches give the same versions whoever learns them."""
        learned = self._set_damaged_aside(listener)
        for batch in waiting(self.store):
            self._open_last()
            learned += self._consolidate_or_compact(listener)
            learn = partial(self._learn, batch, listener)
            learned.append(self._tried(learn, batch.number, listener, batch.source))
        self.refresh()
        if consolidate:
            learned += self._consolidate_or_compact(listener)
        return learned

    def _consolidate_or_compact(self, listener: Listener) -> list[VersionRecord]:
        """What is due; a consolidation writes all tables, so that nothing is left to compact."""
        if self.consolidation_due:
            verify_version(self.store, self.version)
            return [self._tried(lambda: self._consolidate(listener), 0, listener)]
        self._compact(self.compaction_due)
        return []

    def _set_damaged_aside(self, listener: Listener) -> list[VersionRecord]:
        """No batch waits behind one whose file is damaged."""
        return [
            self._set_aside(number, f"{reason}; it is set aside", listener)
            for number, reason in damaged_batches(self.store).items()
        ]

    def _tried(
        self, learn: Callable[[], VersionRecord], batch: int, listener: Listener, source: str = ""
    ) -> VersionRecord:
        """What `learn` returns. If training fails, the batch is set aside, so that others go on."""
        try:
            return learn()
        except LearningFailed as error:
            if not batch:
                return self._failed(0, f"the consolidation failed: {error}", listener)
            again = shlex.join(["lkge", "queue", str(self.store.folder), "--restore", str(batch)])
            message = f"batch {batch} is set aside: {error}. To learn it again: {again}"
            return self._set_aside(batch, message, listener, source)

    def _set_aside(
        self, number: int, message: str, listener: Listener, source: str = ""
    ) -> VersionRecord:
        set_aside(self.store, number, message)
        return self._failed(number, message, listener, source)

    def _failed(
        self, number: int, message: str, listener: Listener, source: str = ""
    ) -> VersionRecord:
        listener(BatchSkipped(number, message, failed=True))
        return record_of_nothing(self.reader.record, number, source, message, failed=True)

    def _consolidate(self, listener: Listener) -> VersionRecord:
        """Train on all known facts again; a version of its own."""
        from lkge.store.consolidation import Consolidation, empty_batch
        from lkge.training.checkpoint import Checkpoints

        self._open_last()
        batch = empty_batch(self.reader)
        checkpoints = Checkpoints(self._place(batch, CONSOLIDATE))
        update = Consolidation(self.reader, batch, self.store_config, listener, checkpoints)
        files, manifest = self._trained(update, update.split(), listener)
        return self._published(batch.number, files, manifest, checkpoints, listener)

    def _place(self, batch: FactBatch, kind: str) -> Path:
        """Where the checkpoint of an update is."""
        return self.store.folder / LEARNING / f"{self.version:06}-{batch.number:08}-{kind}"

    def _learn(self, batch: FactBatch, listener: Listener) -> VersionRecord:
        """One batch becomes one version, unless nothing in it is new."""
        from lkge.store.update import Update
        from lkge.training.checkpoint import Checkpoints

        self._open_last()
        checkpoints = Checkpoints(self._place(batch, ADD))
        self.reader.verify_once(NAMES, KNOWN)
        update = Update(self.reader, batch, self.store_config, listener, checkpoints)
        try:
            split = update.split()
        except (DataError, SettingsError) as error:
            if batch.edit is not None:
                return self._skip(batch, str(error), listener, failed=True)
            if isinstance(error, SettingsError):
                raise
            raise LearningFailed(str(error)) from error
        if split.is_empty and batch.edit is None:
            return self._skip(batch, self._nothing_new(batch), listener)
        if split.is_empty:
            files, manifest = version_with_names(self.reader, batch, split.names)
        else:
            files, manifest = self._trained(update, split, listener)
        return self._published(batch.number, files, manifest, checkpoints, listener)

    def _published(
        self,
        batch: int,
        files: Mapping[str, Content],
        manifest: Manifest,
        checkpoints: Checkpoints,
        listener: Listener,
    ) -> VersionRecord:
        """Publish a version; its batch leaves the inbox, 0 is none."""
        self.store.publish(manifest.version, files, manifest, self.store_config)
        if batch:
            discard(self.store, batch)
        checkpoints.remove()
        self._open_last()
        listener(VersionPublished(self.version, batch))
        return self.reader.record

    def _trained(
        self, update: Update, split: UpdateSplit, listener: Listener
    ) -> tuple[dict[str, Content], Manifest]:
        """Run an update; the kernels are compiled before the first one."""
        if not self._is_warm:
            from lkge.training.warmup import warm_up

            warm_up(self.config, listener)
            self._is_warm = True
        name, method = self.store.folder.name, self.config.method.name
        listener(RunStarted(name, method, split.index + 1, snapshot=0, epochs_done=0))
        try:
            with stops_between_steps():
                return update.run(split)
        except LearningFailed as error:
            rate = self.config.training.learning_rate / 2
            setting = f"training.learning_rate={rate:.3g}"
            remedy = shlex.join(["lkge", "config", str(self.store.folder), "--set", setting])
            raise LearningFailed(f"{error}: {remedy}") from error

    def _skip(
        self, batch: FactBatch, message: str, listener: Listener, failed: bool = False
    ) -> VersionRecord:
        """Note that a batch led to no version, and discard it; a record that says so."""
        folder, number = self.store.folder, batch.number
        note_skipped(folder, number, self.version, message, batch.accepted, failed=failed)
        discard(self.store, number)
        listener(BatchSkipped(number, message, failed))
        record = self.reader.record
        return record_of_nothing(record, number, batch.source, message, failed=failed)

    def _nothing_new(self, batch: FactBatch) -> str:
        known = self.store.options.known
        return nothing_new(len(batch.added), len(batch.retracted), known)


def create(
    folder: Path | str,
    initial: InitialVersion,
    options: Options,
    store_config: StoreConfig | None = None,
) -> LivingGraph:
    """A new living graph; its folder appears, with its first version, in one act."""
    config = initial.config.to_dict()
    Store.create(folder, config, options, initial.files(), initial.manifest())
    return LivingGraph(folder, store_config=store_config)
