"""A living graph: facts in, answers out, version after version, in one folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from lkge.config import RunConfig
from lkge.data.facts import read_facts
from lkge.data.formats import Triple
from lkge.errors import RunError
from lkge.store.checking import Damage, check
from lkge.store.export import export
from lkge.store.health import FIGURES, Health, health
from lkge.store.inbox import FactBatch, accept, discard, waiting
from lkge.store.initial import InitialVersion
from lkge.store.locks import writing
from lkge.store.reader import Reader, open_reader
from lkge.store.records import ROLLBACK, Options, StoreConfig, VersionRecord, now
from lkge.store.relearn import relearning
from lkge.store.update import Update
from lkge.store.versions import LEARNING, Store
from lkge.training.checkpoint import Checkpoints
from lkge.training.events import Listener, RunStarted, VersionPublished, ignore
from lkge.training.interrupt import stops_between_steps
from lkge.training.warmup import warm_up

Source = Iterable[Triple] | Path | str
P = ParamSpec("P")
R = TypeVar("R")


def _of_open_version(
    query: Callable[Concatenate[Reader, P], R],
) -> Callable[Concatenate[LivingGraph, P], R]:
    """A query of a reader as a query of a living graph, to the version that is open."""

    @wraps(query)
    def asked(graph: LivingGraph, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return query(graph.reader, *args, **kwargs)

    return asked


class LivingGraph:
    """The doors of a store. Questions go to the version that is open, which stays the same until
    this object adds, rolls back or refreshes."""

    def __init__(
        self,
        folder: Path | str,
        version: int | None = None,
        store_config: StoreConfig | None = None,
    ) -> None:
        self.store_config = store_config or StoreConfig()
        self.reader: Reader = open_reader(folder, version)
        self.store: Store = self.reader.store

    @property
    def version(self) -> int:
        """The number of the open version."""
        return self.reader.version

    @property
    def config(self) -> RunConfig:
        """How this graph is learned."""
        return self.reader.config

    predict = _of_open_version(Reader.predict)
    similar = _of_open_version(Reader.similar)
    score = _of_open_version(Reader.score)
    entities = _of_open_version(Reader.entities)
    neighbourhood = _of_open_version(Reader.neighbourhood)

    def log(self) -> tuple[VersionRecord, ...]:
        """What happened, version by version."""
        return self.reader.log

    def health(self) -> Health:
        """Whether the open version is as good as its baseline, with figures and the remedy."""
        return health(self.reader)

    def check(self) -> list[Damage]:
        """Every file that is not as it was written."""
        return check(self.store)

    def export(self, folder: Path | str, format: str = "parquet") -> list[Path]:
        """Write all rows with their names into a new folder; see `lkge.store.export`."""
        return export(self.reader, folder, format)

    def refresh(self) -> bool:
        """Go to the newest version; whether that is another one."""
        newest = self.store.newest()
        if newest == self.version:
            return False
        self.reader = open_reader(self.store.folder)
        return True

    def add(
        self,
        facts: Source,
        *,
        retract: Source = (),
        valid: float | None = None,
        source: str = "python",
        listener: Listener = ignore,
    ) -> VersionRecord:
        """Learn new facts, and forget those that no longer hold; the line of the log.

        Both are triples of names, or a file of facts. They are on the disk before learning begins;
        if it is interrupted, the next `add` or `learn_waiting` learns them first.
        """
        with writing(self.store, "add"):
            self.store.tidy()
            self.store.next_version()  # facts that could not be learned now are not taken in
            share = self.store_config.hold_out_fraction if valid is None else valid
            batch = accept(self.store, _triples(facts), _triples(retract), share, source)
            records = self._learn_waiting(listener)
        return next(record for record in records if record.batch == batch.number)

    def learn_waiting(self, listener: Listener = ignore) -> list[VersionRecord]:
        """Learn all facts that were accepted and not learned yet."""
        with writing(self.store, "add"):
            self.store.tidy()
            return self._learn_waiting(listener)

    def rollback(self, version: int) -> VersionRecord:
        """Publish an old version anew, as the newest; the line of the log."""
        with writing(self.store, "rollback"):
            self.store.tidy()
            if waiting(self.store):
                folder = self.store.folder
                raise RunError(f"{folder}: facts wait to be learned; run: lkge add {folder}")
            newest, target = open_reader(self.store.folder), open_reader(self.store.folder, version)
            _publish_again(target, newest)
        self.refresh()
        return self.reader.record

    def relearn(self, listener: Listener = ignore) -> VersionRecord:
        """Learn all known facts at once, from scratch with the settings of the graph, as a new
        version; the line of the log. Held-out facts stay held out, and ids stay as they are. If it
        is interrupted, the next `relearn` of the same version goes on."""
        with writing(self.store, "relearn"):
            self.store.tidy()
            self.store.next_version()
            self.refresh()
            update = relearning(self.reader, self.store_config, listener)
            warm_up(self.config, listener)
            with stops_between_steps():
                return self._publish(update, 0)

    def _learn_waiting(self, listener: Listener) -> list[VersionRecord]:
        batches = waiting(self.store)
        if batches:
            warm_up(self.config, listener)
        with stops_between_steps():
            return [self._learn(batch, listener) for batch in batches]

    def _learn(self, batch: FactBatch, listener: Listener) -> VersionRecord:
        """One batch becomes one version."""
        self.store.next_version()
        self.refresh()
        place = self.store.folder / LEARNING / f"{self.version:06}-{batch.number:08}"
        update = Update(self.reader, batch, self.store_config, listener, Checkpoints(place))
        return self._publish(update, batch.number)

    def _publish(self, update: Update, batch: int) -> VersionRecord:
        """Run an update and publish its version; `batch` leaves the inbox, 0 is none."""
        listener, updates = update.listener, self.reader.manifest.updates
        name, method = self.store.folder.name, self.config.method.name
        listener(RunStarted(name, method, updates + 1, snapshot=0, epochs_done=0))
        files, manifest = update.run()
        self.store.publish(manifest.version, files, manifest)
        if batch:
            discard(self.store, batch)
        update.checkpoints.remove()
        self.refresh()
        listener(VersionPublished(self.version, batch))
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


def _triples(source: Source) -> list[Triple]:
    """Facts by name, read if they are in a file."""
    return list(read_facts(source) if isinstance(source, (str, Path)) else source)


def _publish_again(target: Reader, newest: Reader) -> None:
    """A new version with the content of an old one; the log goes on."""
    old = target.record
    record = VersionRecord(
        version=newest.version + 1,
        kind=ROLLBACK,
        created=now(),
        new_entities=target.num_entities - newest.num_entities,
        new_relations=target.num_relations - newest.num_relations,
        entities=old.entities,
        relations=old.relations,
        known_facts=old.known_facts,
        mrr_new=old.mrr_new,
        mrr_old=old.mrr_old,
        row=old.row,
        candidates=old.candidates,
        drift=0.0,
        source=f"version {target.version}",
        verdict=old.verdict,
        causes=old.causes,
        **{name: getattr(old, name) for name in FIGURES},
    )
    manifest = dataclasses.replace(
        target.manifest,
        version=newest.version + 1,
        last_batch=newest.manifest.last_batch,
        log=(*newest.log, record),
    )
    target.store.publish(manifest.version, target.files(), manifest)
