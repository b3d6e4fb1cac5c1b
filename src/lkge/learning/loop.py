"""Over the snapshots: grow, ask, learn, ask again."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lkge.config import Settings
from lkge.data.snapshots import GrowingGraph, Snapshot, no_facts
from lkge.evaluation.ranking import Examiner, Validator
from lkge.evaluation.results import (
    PROTOCOLS,
    Accuracy,
    ProtocolResult,
    Results,
    SnapshotRecord,
)
from lkge.learning.checkpoint import Checkpoints, Saved
from lkge.learning.fit import Course, Fit
from lkge.learning.progress import (
    Evaluating,
    Listener,
    RunFinished,
    RunStarted,
    SnapshotFinished,
    SnapshotStarted,
    ignore,
)
from lkge.methods import method_named
from lkge.methods.base import Method
from lkge.models.model import Model
from lkge.models.predictor import Predictor
from lkge.models.tables import Tables

SECONDS_BETWEEN_CHECKPOINTS = 2.0
"""An epoch that ends sooner after the last checkpoint is not saved by itself."""


@dataclass(frozen=True)
class Learned:
    """A finished run: what was found, and the tables that answer."""

    results: Results
    tables: Tables
    model: Model


class Loop:
    """One method on one growing graph, from the first snapshot or from a checkpoint."""

    def __init__(
        self,
        graph: GrowingGraph,
        settings: Settings,
        checkpoints: Checkpoints | None = None,
        listener: Listener = ignore,
        seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
    ) -> None:
        self.graph = graph
        self.settings = settings
        self.results = Results(graph.name, settings.method, settings.to_dict())
        self._model = Model(settings)
        self._method: Method = method_named(settings.method)(settings)
        self._examiner = Examiner(graph)
        self._checkpoints = checkpoints
        self._listener = listener
        self._interval = seconds_between_checkpoints

    def run(self) -> Learned:
        """Learn all snapshots that are not learned yet."""
        saved = self._checkpoints.load() if self._checkpoints else None
        if saved is not None:
            self._restore(saved)
        first = len(self.results.snapshots)
        epochs_done = saved.progress["course"]["epochs"] if saved and saved.epoch else 0
        self._listener(
            RunStarted(
                self.graph.name, self.settings.method, len(self.graph), first, epochs_done
            )
        )
        for snapshot in self.graph.snapshots[first:]:
            self._learn(snapshot, saved)
            saved = None
        self._listener(RunFinished(self.results.seconds))
        return Learned(self.results, self._method.served(self._model), self._model)

    def _restore(self, saved: Saved) -> None:
        self.results = Results.from_json(saved.progress["results"])
        self._model.tables = Tables.from_named(saved.start, "tables")
        self._method.load_state(_without_prefix(saved.start, "method."))

    def _learn(self, snapshot: Snapshot, saved: Saved | None) -> None:
        lesson = dataclasses.replace(snapshot, test=no_facts())
        validator = Validator(self.graph.snapshots[: snapshot.index + 1])
        if saved is None:
            self._save_start()
        started = time.perf_counter()
        self._method.grow(self._model, lesson)
        grown = time.perf_counter()
        forward = self._examine(snapshot.index - 1, [snapshot.index]) if snapshot.index else []
        begun = time.perf_counter()
        self._method.begin(self._model, lesson)
        fit = Fit(self._model, self._method, lesson, validator)
        preparation = time.perf_counter() - begun + grown - started
        if saved is not None and saved.epoch is not None:
            fit.load_state(saved.epoch, saved.progress["course"])
        self._listener(
            SnapshotStarted(
                snapshot=snapshot.index,
                train_facts=len(self._method.facts(lesson)),
                entities=snapshot.num_entities,
                relations=snapshot.num_relations,
                max_epochs=self.settings.max_epochs,
            )
        )
        fit.run(self._listener, self._saver(fit))
        ended = time.perf_counter()
        self._method.end(self._model, lesson)
        fit.course.seconds += preparation + time.perf_counter() - ended
        self._record(snapshot, fit.course, forward)

    def _examine(self, i: int, tests: list[int]) -> list[dict[str, Accuracy]]:
        """h[i, j] for each j of `tests`; while M_i grows, i is the snapshot it grows for."""
        now = max(i, *tests)
        queries = sum(2 * len(self.graph.snapshots[j].test) for j in tests)
        self._listener(Evaluating(now, queries))
        predictor = Predictor.of(
            self._method.served(self._model), self._model.score, self._model.fused
        )
        return [self._examiner.accuracy(predictor, now, j) for j in tests]

    def _record(
        self, snapshot: Snapshot, course: Course, forward: list[dict[str, Accuracy]]
    ) -> None:
        row = self._examine(snapshot.index, list(range(snapshot.index + 1)))
        record = SnapshotRecord(
            index=snapshot.index,
            new_facts=snapshot.num_facts,
            train_facts=len(snapshot.train),
            entities=snapshot.num_entities,
            relations=snapshot.num_relations,
            epochs=course.epochs,
            best_epoch=course.best_epoch,
            valid_mrr=course.best_mrr if course.epochs and len(snapshot.valid) else float("nan"),
            seconds=course.seconds,
            validation_seconds=course.validation_seconds,
            carried_bytes=self._method.carried_bytes(),
        )
        before = self.results.protocols
        self.results = dataclasses.replace(
            self.results,
            snapshots=(*self.results.snapshots, record),
            protocols={
                name: ProtocolResult(
                    matrix=(*before[name].matrix, tuple(cell[name] for cell in row)),
                    forward=(*before[name].forward, *(cell[name] for cell in forward)),
                )
                for name in PROTOCOLS
            },
        )
        self._save_start()
        after = {name: self.results.protocols[name].after(snapshot.index).mrr for name in PROTOCOLS}
        self._listener(
            SnapshotFinished(
                snapshot=snapshot.index,
                epochs=course.epochs,
                best_epoch=course.best_epoch,
                valid_mrr=record.valid_mrr,
                paper_mrr=after["paper"],
                current_mrr=after["current"],
                seconds=course.seconds,
            )
        )

    def _save_start(self) -> None:
        if self._checkpoints is None:
            return
        carried = {f"method.{name}": t for name, t in self._method.state().items()}
        self._checkpoints.save_start(
            self._model.tables.named("tables") | carried, self._progress(None)
        )

    def _saver(self, fit: Fit) -> Any:
        last = time.monotonic()

        def save() -> None:
            nonlocal last
            if self._checkpoints is None or time.monotonic() - last < self._interval:
                return
            tensors, course = fit.state()
            self._checkpoints.save_epoch(tensors, self._progress(course))
            last = time.monotonic()

        return save

    def _progress(self, course: dict[str, Any] | None) -> dict[str, Any]:
        return {"results": self.results.to_json(), "course": course}


def _without_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
