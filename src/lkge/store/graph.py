"""A living graph: facts in, answers out, version after version, in one folder.

Queries go to the open version, updates to `lkge.store.updater`. Neither imports torch before
something is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from lkge.config import RunConfig
from lkge.data.columns import GivenColumns
from lkge.data.rows import SHOWN, Row, Rows, html_table
from lkge.data.sources import Source, joined, labels_in, read_source
from lkge.errors import DataError, LearningFailed, RunError, packages_named
from lkge.store.checking import Damage, check
from lkge.store.content import compaction_due
from lkge.store.contradictions import names_damage
from lkge.store.editing import require_possible
from lkge.store.edits import Pair, edit_of
from lkge.store.explaining import explain
from lkge.store.export import export
from lkge.store.finding import find
from lkge.store.health import Health, health
from lkge.store.inbox import accept
from lkge.store.locks import writing
from lkge.store.open_version import OpenVersion
from lkge.store.preview import Preview, preview
from lkge.store.pruning import prune
from lkge.store.queue import QueuedBatch, queue, restore, set_aside
from lkge.store.reader import Reader, open_reader
from lkge.store.records import (
    COMPACT,
    CONSOLIDATE,
    FAILED,
    ROW,
    Manifest,
    Options,
    StoreConfig,
    VersionRecord,
)
from lkge.store.relations import predict_relations
from lkge.store.retention import changed_options
from lkge.store.rollback import with_content_of, with_settings
from lkge.store.suggesting import suggest
from lkge.store.tags import add_tag, delete_tag
from lkge.store.updater import Updater, consolidation_due
from lkge.store.versions import Store
from lkge.training.events import Listener, by_default, heard, ignore

if TYPE_CHECKING:
    from lkge.store.initial import InitialVersion

P = ParamSpec("P")
R = TypeVar("R")


def _rows_of_open_version(
    query: Callable[Concatenate[Reader, P], Sequence[Row]],
) -> Callable[Concatenate[LivingGraph, P], Rows[Row]]:
    """The same of a query whose answers are named tuples."""

    @wraps(query)
    def asked(graph: LivingGraph, /, *args: P.args, **kwargs: P.kwargs) -> Rows[Row]:
        return Rows(query(graph._opened.answering(), *args, **kwargs))

    return asked


def _of_open_version(
    query: Callable[Concatenate[Reader, P], R],
) -> Callable[Concatenate[LivingGraph, P], R]:
    """A query of a reader as a query of a living graph, to the version that is open."""

    @wraps(query)
    def asked(graph: LivingGraph, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return query(graph._opened.answering(), *args, **kwargs)

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
    """A graph that learns facts and answers queries. Queries go to the version that is open, which
    stays the same until this object adds, rolls back or refreshes. What learns shows its progress
    in a terminal or a notebook, unless it has a `listener`."""

    def __init__(
        self,
        folder: Path | str,
        version: int | str | None = None,
        store_config: StoreConfig | None = None,
    ) -> None:
        self.store_config = store_config or StoreConfig()
        self._opened = OpenVersion(folder, version)
        self.store: Store = self._opened.store

    @property
    def reader(self) -> Reader:
        """The open version."""
        return self._opened.reader

    @property
    def version(self) -> int:
        """The number of the open version."""
        return self.reader.version

    @property
    def config(self) -> RunConfig:
        """How this graph is learned."""
        return self.reader.config

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
        rows = [each.row for each in self.log()[-SHOWN:][::-1]]
        return html_table(f"{self._title()}: {self._sizes()}", ROW, rows)

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
            self._opened.go_to_last()
            files = self.reader.manifest.files
            changed = [kind for kind, each in files.items() if len(each) > 1]
            return self._updater().compact(changed)

    def check(self) -> list[Damage]:
        """Every file that is not as it was written."""
        return check(self.store)

    def export(self, folder: Path | str, format: str = "parquet") -> list[Path]:
        """Write all rows with their names into a new folder; see `lkge.store.export`."""
        return export(self.reader, folder, format)

    @names_damage
    def refresh(self) -> bool:
        """Go to the newest version; whether that is another one."""
        return self._opened.refresh()

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
            records = self._updater(listener).learn_waiting(consolidate)
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
            return self._updater(listener).learn_waiting()

    @property
    def consolidation_due(self) -> bool:
        """Whether so much was added that all known facts should be trained on again."""
        return consolidation_due(self.reader)

    @_heard
    def consolidate(self, listener: Listener = by_default) -> VersionRecord | None:
        """Train on all known facts again if that is due, or compact if that is due; the line of
        the log of a new version."""
        with writing(self.store, CONSOLIDATE, listener):
            self.store.tidy()
            self._opened.go_to_last()
            return next(iter(self._updater(listener).consolidate_or_compact()), None)

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
            self._updater(listener).learn_waiting(consolidate=False)
            self._opened.go_to_last()
            require_possible(edit, self.reader)
            share = self.store_config.hold_out_fraction
            batch = accept(self.store, (), valid=share, source=str(edit), edit=edit)
            records = self._updater(listener).learn_waiting(consolidate)
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
            prune(self.store, options)
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
            self._opened.go_to_last()
            target = open_reader(self.store.folder, version)
            target.verify()
            return self._published(with_content_of(target, self.reader))

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
            self._opened.go_to_last()
            config = changed_config(self.config, changes, self.store.options.known)
            return self._published(with_settings(config, described(changes), self.reader))

    @_heard
    def relearn(self, listener: Listener = by_default) -> VersionRecord:
        """Learn all known facts at once, from scratch with the settings of the graph, as a new
        version; the line of the log. Held-out facts stay held out, and ids stay as they are. If it
        is interrupted, the next `relearn` of the same version goes on."""
        with writing(self.store, "relearn", listener):
            self.store.tidy()
            return self._updater(listener).relearn()

    def _updater(self, listener: Listener = ignore) -> Updater:
        return Updater(self._opened, self.store_config, listener)

    def _published(self, manifest: Manifest) -> VersionRecord:
        """Publish a version that has the files of another one; the line of the log."""
        self.store.publish(manifest.version, {}, manifest)
        self._opened.go_to_last()
        return self.reader.record


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
