"""A batch is learned: the rows it needs are taken out, taught, and put back where they differ."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Snapshot, no_facts
from lkge.evaluation.ranking import Validator
from lkge.learning.checkpoint import Checkpoints
from lkge.learning.fit import Fit
from lkge.learning.loop import learned_tensors, restored
from lkge.learning.progress import Listener, SnapshotStarted
from lkge.models.predictor import Predictor, TablePredictor
from lkge.store.arrays import Array, Patched, taken
from lkge.store.lesson import Lesson
from lkge.store.working import Arrays, Rows, is_by_entity

SECONDS_BETWEEN_CHECKPOINTS = 5.0
ENTITY, RELATION = "entity", "relation"
TABLE = "tables.entity"
"""The rows of entities among all that goes on learning."""


@dataclass(frozen=True)
class Taught:
    """What a lesson left behind on its rows."""

    rows: Rows
    tensors: dict[str, Tensor]
    predictor: Predictor
    epochs: int
    seconds: float

    def model_file(self, before: Arrays) -> dict[str, Array]:
        """All that goes on learning, over the whole graph. What the method did not carry before is
        zero on all other rows."""
        old = len(before[TABLE])
        return {
            name: put_back(
                before.get(name, _zeros(old, tensor.numpy())),
                self.rows, tensor.numpy(), is_by_entity(name),
            )
            for name, tensor in self.tensors.items()
        }  # fmt: skip

    def answering_file(self, before: Arrays) -> dict[str, Array] | None:
        """The tables that answer, over the whole graph; none where something else answers."""
        tables = answering_tables(self.predictor)
        if tables is None:
            return None
        whole = put_back(before.get(ENTITY), self.rows, tables[ENTITY], by_entity=True)
        return {ENTITY: whole, RELATION: tables[RELATION]}


def teach(
    config: RunConfig,
    lesson: Lesson,
    rows: Rows,
    model_arrays: Arrays,
    answers: KnownFacts,
    listener: Listener,
    checkpoints: Checkpoints,
) -> Taught:
    """Learn a lesson on the given rows. `answers` are those known before it. With nothing to select
    by, all epochs are learned: a loss on a few facts falls and rises by chance."""
    started = time.perf_counter()
    if not len(lesson.select):
        config = dataclasses.replace(config, patience=config.training.max_epochs)
    model, method = restored(config, rows.of_state(model_arrays))
    snapshot, retracted = _snapshot(lesson, rows), rows.local(lesson.retracted)
    if len(retracted):
        method.retract(retracted)
    method.grow(model, snapshot)
    method.begin(model, snapshot)
    known = KnownFacts.build(
        [np.concatenate([snapshot.train, snapshot.valid, rows.known(answers, lesson.select)])]
    )
    fit = Fit(model, method, snapshot, Validator([snapshot], known), retracted)
    if saved := checkpoints.load():
        fit.load_state(saved.epoch or {}, saved.progress)
    listener(
        SnapshotStarted(
            snapshot=lesson.index,
            train_facts=fit.num_facts,
            entities=lesson.names.num_entities,
            relations=lesson.names.num_relations,
            max_epochs=config.training.max_epochs,
        )
    )
    fit.run(listener, _saver(fit, checkpoints))
    method.end(model, snapshot)
    return Taught(
        rows,
        learned_tensors(model, method),
        method.predictor(model),
        fit.course.epochs,
        time.perf_counter() - started,
    )


def _snapshot(lesson: Lesson, rows: Rows) -> Snapshot:
    """The lesson in the numbers of its rows."""
    return Snapshot(
        index=lesson.index,
        train=rows.local(lesson.train),
        valid=rows.local(lesson.select),
        test=no_facts(),
        num_entities=len(rows),
        num_relations=lesson.names.num_relations,
    )


def _saver(fit: Fit, checkpoints: Checkpoints) -> Callable[[], None]:
    """What saves a fit after an epoch, if the last time is long enough ago."""
    last = time.monotonic()

    def save() -> None:
        nonlocal last
        if time.monotonic() - last < SECONDS_BETWEEN_CHECKPOINTS:
            return
        if not checkpoints.exists:
            checkpoints.save_start({}, {})
        tensors, course = fit.state()
        checkpoints.save_epoch(tensors, course)
        last = time.monotonic()

    return save


def answering_tables(predictor: Predictor) -> dict[str, NDArray[Any]] | None:
    """The two tables that answer; none where they are not all that answers."""
    if not isinstance(predictor, TablePredictor) or predictor.subject is not None:
        return None
    return {ENTITY: predictor.entity.numpy(), RELATION: predictor.relation.numpy()}


def _zeros(rows: int, like: NDArray[Any]) -> NDArray[Any]:
    """So many rows like those of a table, all zero; they take no memory."""
    return np.broadcast_to(like.dtype.type(0), (rows, *like.shape[1:]))


def put_back(
    before: NDArray[Any] | None, rows: Rows, after: NDArray[Any], by_entity: bool
) -> Array:
    """The table of the whole graph after a lesson: `after` (w, …) on the given rows, and `before`
    on all others. A row that did not change is not written."""
    if before is None or not by_entity or rows.num_old == len(before):
        return after
    old = rows.ids[: rows.num_old]
    differs = (taken(before, old) != after[: rows.num_old]).reshape(rows.num_old, -1).any(axis=1)
    return Patched(before, old[differs], after[: rows.num_old][differs], after[rows.num_old :])
