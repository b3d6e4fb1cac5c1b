"""From one version to the next: a batch is learned and examined, ready to be published."""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import with_inverses
from lkge.learning.checkpoint import Checkpoints
from lkge.learning.progress import Evaluating, Listener
from lkge.methods import method_named
from lkge.models.model import EXAMINE, HOLD_OUT, POOL, stream
from lkge.models.predictor import Predictor, TablePredictor
from lkge.store.arrays import Array, taken
from lkge.store.calibration import Curve, calibrated
from lkge.store.exam import (
    Exam,
    Reciprocals,
    candidates,
    mean_by_version,
    mean_drift,
    reciprocal_ranks,
)
from lkge.store.inbox import FactBatch
from lkge.store.learner import ENTITY, TABLE, Taught, teach
from lkge.store.lesson import Lesson, lesson_of
from lkge.store.reader import Reader
from lkge.store.records import ADD, Manifest, VersionRecord
from lkge.store.versions import ANSWERING, EXAM, KNOWN, MODEL, NAMES
from lkge.store.working import Rows, all_rows, working_rows

FORGETTING = 0.1
"""A warning is given when old held-out facts lose more than this share of their MRR."""
FEW = 20
"""With fewer of them than this no warning is given: it would be noise."""


class Update:
    """A batch on top of an opened version. The same version and batch give the same bytes."""

    def __init__(
        self, reader: Reader, batch: FactBatch, listener: Listener, checkpoints: Checkpoints
    ) -> None:
        self.reader = reader
        self.batch = batch
        self.version = reader.version + 1
        self._listener = listener
        self._checkpoints = checkpoints

    def files(self) -> dict[str, dict[str, Array]]:
        """The arrays of the new version, file by file."""
        files: dict[str, dict[str, Array]] = {
            MODEL: self.taught.model_file(self.reader.model_arrays),
            NAMES: dict(self.lesson.names.arrays()),
            KNOWN: dict(self.answers.arrays()),
            EXAM: dict(self.exam.arrays()),
        }
        return files | ({ANSWERING: self.answering} if self.answering else {})

    def manifest(self) -> Manifest:
        """What the new version says of itself; its files are sealed when they are written."""
        return dataclasses.replace(
            self.reader.manifest,
            version=self.version,
            lessons=self.lesson.index + 1,
            last_batch=self.batch.number,
            calibration=self.curve,
            log=(*self.reader.log, self.record()),
        )

    def record(self) -> VersionRecord:
        """The line of the log."""
        lesson, before = self.lesson, self.reader.names
        is_new = self.exam.since == self.version
        return VersionRecord(
            version=self.version,
            kind=ADD,
            created=self.batch.accepted,
            facts=len(lesson.new_facts),
            retracted=len(lesson.retracted),
            new_entities=lesson.names.num_entities - before.num_entities,
            new_relations=lesson.names.num_relations - before.num_relations,
            entities=lesson.names.num_entities,
            relations=lesson.names.num_relations,
            known_facts=self.answers.num_facts,
            mrr_new=_mean(self.reciprocals[is_new]),
            mrr_old_before=_mean(self.reciprocals_before),
            mrr_old=_mean(self.reciprocals[~is_new]),
            row=mean_by_version(self.exam, self.reciprocals),
            candidates=len(self.candidates),
            drift=self.drift,
            touched=len(self._moved),
            epochs=self.taught.epochs,
            seconds=self.taught.seconds,
            warnings=(*lesson.warnings, *self._forgetting()),
            source=self.batch.source,
            batch=self.batch.number,
        )

    @cached_property
    def lesson(self) -> Lesson:
        """The batch by id."""
        reader = self.reader
        return lesson_of(
            self.batch,
            reader.manifest.lessons,
            reader.names,
            reader.answers,
            self._stream(HOLD_OUT),
        )

    @cached_property
    def taught(self) -> Taught:
        """What was learned."""
        reader = self.reader
        return teach(
            reader.config,
            self.lesson,
            self._rows(),
            reader.model_arrays,
            reader.answers,
            self._listener,
            self._checkpoints,
        )

    @cached_property
    def answering(self) -> dict[str, Array] | None:
        """The tables that answer from now on, if it is tables that answer."""
        return self.taught.answering_file(self.reader.answering_arrays)

    @cached_property
    def answers(self) -> KnownFacts:
        """The known answers, if the store keeps them."""
        known, lesson = self.reader.answers, self.lesson
        if not self.reader.store.options.known:
            return known
        if len(lesson.retracted):
            known = known.without(lesson.retracted)
        return known.merged(lesson.new_facts, self.version)

    @cached_property
    def exam(self) -> Exam:
        """The held-out facts that are kept."""
        kept = self.reader.exam.without(self.lesson.retracted)
        return kept.grown(self.lesson.exam, self.version, self._stream(EXAMINE, 0))

    @cached_property
    def candidates(self) -> Rows:
        """Whom held-out facts are ranked among."""
        total, sample = self.lesson.names.num_entities, self._stream(EXAMINE, 1)
        if self.answering is None:
            return all_rows(total, total)
        return candidates(self.exam.facts, total, sample)

    @cached_property
    def predictor(self) -> Predictor:
        """What answers from now on, on the candidates alone."""
        if self.answering is None:
            return self.taught.predictor
        return _on_rows(self.taught.predictor, self.answering[ENTITY], self.candidates)

    @cached_property
    def reciprocals(self) -> Reciprocals:
        """1/rank of every held-out fact."""
        self._listener(Evaluating(self.lesson.index, 2 * len(self.exam)))
        return reciprocal_ranks(self.predictor, self.candidates, self.exam.facts, self.answers)

    @cached_property
    def reciprocals_before(self) -> Reciprocals:
        """1/rank of the old held-out facts under the version before."""
        reader, since = self.reader, self.exam.since
        ids = self.candidates.ids[self.candidates.ids < reader.num_entities]
        rows, predictor = Rows(ids, len(ids)), reader.predictor
        if reader.answering_arrays:
            predictor = _on_rows(predictor, reader.answering_arrays[ENTITY], rows)
        asked = self.exam.facts[since < self.version]
        return reciprocal_ranks(predictor, rows, asked, reader.answers)

    @cached_property
    def curve(self) -> Curve:
        """From scores to plausibility, by the held-out facts; as before where there are none."""
        if not len(self.exam):
            return self.reader.curve
        true = with_inverses(self.candidates.local(self.exam.facts))
        corrupted = true.copy()
        corrupted[:, 2] = self._stream(EXAMINE, 2).integers(0, len(self.candidates), len(true))
        return calibrated(self.predictor.fact_scores(true), self.predictor.fact_scores(corrupted))

    @cached_property
    def drift(self) -> float:
        """How far the old rows that moved have turned."""
        return mean_drift(*self._moved_rows())

    @cached_property
    def _moved(self) -> NDArray[Any]:
        before, after = self._old_rows
        return np.flatnonzero((before != after).any(axis=1))

    def _moved_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        before, after = self._old_rows
        return torch.from_numpy(before[self._moved]), torch.from_numpy(after[self._moved])

    @cached_property
    def _old_rows(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The old among the rows of the lesson, before and after it."""
        rows = self.taught.rows
        before = taken(self.reader.model_arrays[TABLE], rows.ids[: rows.num_old])
        return before, self.taught.tensors[TABLE].numpy()[: rows.num_old]

    def _rows(self) -> Rows:
        """The rows that the lesson needs: all for a method that does not work row by row."""
        lesson, old, config = self.lesson, self.reader.num_entities, self.reader.config
        if not method_named(config.method.name)(config).rowwise:
            return all_rows(old, lesson.names.num_entities)
        named = np.concatenate([lesson.train, lesson.select, lesson.retracted])
        return working_rows(named, old, lesson.names.num_entities, self._stream(POOL))

    def _forgetting(self) -> list[str]:
        before, after = self.reciprocals_before, self.reciprocals[self.exam.since < self.version]
        if len(before) < FEW or _mean(after) >= (1 - FORGETTING) * _mean(before):
            return []
        return [
            f"old held-out facts fell from MRR {_mean(before):.3f} to {_mean(after):.3f}; "
            f"`lkge rollback` takes the last version back"
        ]

    def _stream(self, purpose: int, *part: int) -> np.random.Generator:
        return stream(self.reader.config.training.seed, purpose, self.version, *part)


def _on_rows(predictor: Predictor, entity: Array, rows: Rows) -> Predictor:
    """A predictor from tables that knows the given rows of `entity` only, numbered anew."""
    assert isinstance(predictor, TablePredictor)
    return dataclasses.replace(
        predictor, entity=torch.from_numpy(taken(entity, rows.ids)), names=None
    )


def _mean(values: Reciprocals) -> float:
    return float(values.mean()) if len(values) else math.nan
