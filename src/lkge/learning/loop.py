"""Over the snapshots: grow, ask, learn, ask again."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import GrowingGraph, Snapshot, no_facts
from lkge.evaluation.ranking import Examiner, Validator
from lkge.evaluation.results import (
    PROTOCOLS,
    Accuracy,
    ProtocolResult,
    Results,
    SnapshotRecord,
)
from lkge.learning.checkpoint import Checkpoints, Saved, with_prefix, without_prefix
from lkge.learning.fit import Fit
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
from lkge.models.parameters import Parameters
from lkge.models.predictor import Predictor

SECONDS_BETWEEN_CHECKPOINTS = 2.0
"""An epoch that ends sooner after the last checkpoint is not saved by itself."""


@dataclass(frozen=True)
class Learned:
    """A finished run: what was found, and what was learned."""

    results: Results
    model: Model
    method: Method

    @property
    def tables(self) -> Parameters:
        """The tables that answer."""
        return self.method.served(self.model)

    @property
    def predictor(self) -> Predictor:
        """What answers; it has no names."""
        return self.method.predictor(self.model)

    def tensors(self) -> dict[str, Tensor]:
        """All that was learned, for a file; `restored` is the inverse."""
        return learned_tensors(self.model, self.method)


def restored(config: RunConfig, tensors: Mapping[str, Tensor]) -> tuple[Model, Method]:
    """Model and method from what they have learned."""
    model, method = Model(config), method_named(config.method.name)(config)
    _restore(model, method, tensors)
    return model, method


def learned_tensors(model: Model, method: Method) -> dict[str, Tensor]:
    """All that model and method have learned, for a file; `restored` is the inverse."""
    return model.tables.named("tables") | with_prefix("method.", method.state())


def _restore(model: Model, method: Method, tensors: Mapping[str, Tensor]) -> None:
    model.tables = Parameters.from_named(tensors, "tables")
    method.load_state(without_prefix("method.", tensors))


@dataclass
class Stopwatch:
    """Seconds spent inside its blocks."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of this block."""
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


class Loop:
    """One method on one growing graph, from the first snapshot or from a checkpoint."""

    def __init__(
        self,
        graph: GrowingGraph,
        config: RunConfig,
        checkpoints: Checkpoints | None = None,
        listener: Listener = ignore,
        seconds_between_checkpoints: float = SECONDS_BETWEEN_CHECKPOINTS,
    ) -> None:
        self.graph = graph
        self.config = config
        self.results = Results(graph.name, config.method.name, config.to_dict())
        self._model = Model(config)
        self._method: Method = method_named(config.method.name)(config)
        self._examiner = Examiner(graph)
        self._checkpoints = checkpoints
        self.listener = listener
        self._interval = seconds_between_checkpoints

    def run(self) -> Learned:
        """Learn all snapshots that are not learned yet."""
        saved = self._checkpoints.load() if self._checkpoints else None
        if saved is None:
            self._save_start()
        else:
            self._restore(saved)
        first = len(self.results.snapshots)
        self.listener(
            RunStarted(
                dataset=self.graph.name,
                method=self.config.method.name,
                snapshots=len(self.graph),
                snapshot=first,
                epochs_done=saved.progress["course"]["epochs"] if saved and saved.epoch else 0,
            )
        )
        for snapshot in self.graph.snapshots[first:]:
            self._learn(snapshot, saved)
            saved = None
        self.listener(RunFinished(self.results.seconds))
        return Learned(self.results, self._model, self._method)

    def _restore(self, saved: Saved) -> None:
        self.results = Results.from_json(saved.progress["results"])
        _restore(self._model, self._method, saved.start)

    def _learn(self, snapshot: Snapshot, saved: Saved | None) -> None:
        """Grow for the snapshot, ask what is known already, learn it, and ask again.

        The method gets the snapshot without its test facts.
        """
        lesson = dataclasses.replace(snapshot, test=no_facts())
        validator = Validator(self.graph.snapshots[: snapshot.index + 1])
        watch = Stopwatch()
        with watch.running():
            self._method.grow(self._model, lesson)
        forward = self._examine(snapshot.index, [snapshot.index]) if snapshot.index else []
        with watch.running():
            self._method.begin(self._model, lesson)
            fit = Fit(self._model, self._method, lesson, validator)
        if saved is not None and saved.epoch is not None:
            fit.load_state(saved.epoch, saved.progress["course"])
        self.listener(
            SnapshotStarted(
                snapshot=snapshot.index,
                train_facts=fit.num_facts,
                entities=snapshot.num_entities,
                relations=snapshot.num_relations,
                max_epochs=self.config.training.max_epochs,
            )
        )
        fit.run(self.listener, self._saver(fit))
        with watch.running():
            self._method.end(self._model, lesson)
        fit.course.seconds += watch.seconds
        self._conclude(snapshot, fit, forward, validator)

    def _examine(self, i: int, tests: Sequence[int]) -> list[dict[str, Accuracy]]:
        """h[i, j] for each j of `tests`; h[i-1, i] while M_{i-1} has only grown for snapshot i."""
        queries = sum(2 * len(self.graph.snapshots[j].test) for j in tests)
        self.listener(Evaluating(i, queries))
        return self._examiner.accuracies(self._method.predictor(self._model), i, tests)

    def _conclude(
        self,
        snapshot: Snapshot,
        fit: Fit,
        forward: list[dict[str, Accuracy]],
        validator: Validator,
    ) -> None:
        """Ask about all tests so far, note it, save it, tell it."""
        row = self._examine(snapshot.index, range(snapshot.index + 1))
        record = SnapshotRecord(
            index=snapshot.index,
            new_facts=snapshot.num_facts,
            train_facts=len(snapshot.train),
            entities=snapshot.num_entities,
            relations=snapshot.num_relations,
            epochs=fit.course.epochs,
            best_epoch=fit.course.best_epoch,
            valid_mrr=fit.best_valid_mrr,
            seconds=fit.course.seconds,
            validation_seconds=fit.course.validation_seconds,
            carried_bytes=self._method.carried_bytes(),
            union_valid_mrr=validator.union_mrr(self._method.predictor(self._model)),
            note=self._method.note(),
        )
        self.results = _extended(self.results, record, row, forward)
        self._save_start()
        self.listener(_last_finished(self.results))

    def _save_start(self) -> None:
        if self._checkpoints is None:
            return
        self._checkpoints.save_start(
            learned_tensors(self._model, self._method), self._progress(None)
        )

    def _saver(self, fit: Fit) -> Callable[[], None]:
        """What saves a fit after an epoch, if the last time is long enough ago."""
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


def _extended(
    results: Results,
    record: SnapshotRecord,
    row: list[dict[str, Accuracy]],
    forward: list[dict[str, Accuracy]],
) -> Results:
    """Results with one more snapshot: its record, its row of h, and h[i-1, i] if there is any."""
    before = results.protocols
    return dataclasses.replace(
        results,
        snapshots=(*results.snapshots, record),
        protocols={
            name: ProtocolResult(
                matrix=(*before[name].matrix, tuple(cell[name] for cell in row)),
                forward=(*before[name].forward, *(cell[name] for cell in forward)),
            )
            for name in PROTOCOLS
        },
    )


def _last_finished(results: Results) -> SnapshotFinished:
    """The last snapshot of the results as an event."""
    record = results.snapshots[-1]
    return SnapshotFinished(
        snapshot=record.index,
        epochs=record.epochs,
        best_epoch=record.best_epoch,
        valid_mrr=record.valid_mrr,
        paper_mrr=results.protocols["paper"].final.mrr,
        current_mrr=results.protocols["current"].final.mrr,
        seconds=record.seconds,
    )
