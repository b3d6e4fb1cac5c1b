"""The trainer learns one snapshot. Benchmark runs and updates of a living graph both use it.

Its phases, in order:

    prepare   method.retract, method.grow    afterwards the model has rows for all that is new
    begin     method.begin, optimizer        an interrupted training is resumed here
    train     epochs of steps, a validation after each, early stopping, best epoch restored
    finish    method.end

A step is the same for every method:

    batch → gradient of the loss → method.penalty → method.adjust → optimizer
          → method.after_step → parameter average

The tables that are validated and restored are the averaged ones, if the settings want an average.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.batches import Batch, batches, query_batches, retraction_batches
from lkge.data.history import NO_HISTORY, History
from lkge.data.snapshots import Facts, Snapshot, no_facts, with_inverses
from lkge.errors import DamagedFile, LearningFailed
from lkge.evaluation.ranking import ValidationSample, Validator
from lkge.methods import method_named
from lkge.methods.base import Method, State
from lkge.models.model import RANK, TRAIN, Model, stream
from lkge.models.parameters import Gradient, Parameters, index
from lkge.training import interrupt
from lkge.training.checkpoint import CheckpointSaver, Saved, with_prefix, without_prefix
from lkge.training.events import EpochFinished, Listener, SnapshotStarted, ignore
from lkge.training.optimizers import Average, averaging_interval, grown, optimizer_of


@dataclass
class TrainingProgress:
    """Epochs done, the best of them, and the time taken.

    `best_mrr` is the best validation MRR; without validation facts, the least training loss,
    negated. `gain_mrr` is the value that the next epoch must exceed to count as a gain.
    """

    epochs: int = 0
    best_epoch: int = 0
    best_mrr: float = -math.inf
    steps: int = 0
    gain_epoch: int = 0
    gain_mrr: float = -math.inf
    seconds: float = 0.0
    validation_seconds: float = 0.0

    @property
    def epochs_without_gain(self) -> int:
        """Epochs since the last gain."""
        return self.epochs - self.gain_epoch

    def is_gain(self, mrr: float, share: float) -> bool:
        """Whether mrr > gain_mrr + share · |gain_mrr|; the first value always is."""
        return not math.isfinite(self.gain_mrr) or mrr > self.gain_mrr + share * abs(self.gain_mrr)


PROGRESS = TypeAdapter(TrainingProgress)


@dataclass(frozen=True)
class TrainingResult:
    """What the training of a snapshot came to; `valid_mrr` is nan without validation facts."""

    epochs: int
    best_epoch: int
    valid_mrr: float
    seconds: float
    validation_seconds: float


class Trainer:
    """Trains `model` with `method` on `snapshot`, which has no test facts.

    retracted     facts (k, 3) that no longer hold: their score is lowered
    saver         saves the state after an epoch
    num_entities  reported in events; default: those of the snapshot
    history       the facts of earlier snapshots, for a method that uses them
    review        the snapshot has known facts again: the method has learned them before, so that
                  its `end` is not called
    """

    def __init__(
        self,
        model: Model,
        method: Method,
        snapshot: Snapshot,
        validator: Validator,
        retracted: Facts | None = None,
        listener: Listener = ignore,
        saver: CheckpointSaver | None = None,
        num_entities: int | None = None,
        history: History = NO_HISTORY,
        review: bool = False,
    ) -> None:
        self.model, self.method, self.snapshot = model, method, snapshot
        method.history = history if method.uses_history else NO_HISTORY
        self._review = review
        self.progress = TrainingProgress()
        self._validator = validator
        self._retracted = no_facts() if retracted is None else retracted
        self._listener, self._saver = listener, saver
        self._num_entities = method.num_entities = num_entities or snapshot.num_entities
        self._config = model.config
        self._seconds_outside_epochs = 0.0
        self._best: State = {}
        """Copies of all that goes back to the best epoch, by name; empty before the first."""

    def run(self, saved: Saved | None = None) -> TrainingResult:
        """All phases."""
        self.prepare()
        self.begin(saved)
        self.train()
        return self.finish()

    def prepare(self) -> None:
        """Retract facts, and add rows for new entities and relations."""
        with self._timed():
            if len(self._retracted):
                self.method.retract(self._retracted)
            self.method.grow(self.model, self.snapshot)

    def begin(self, saved: Saved | None = None) -> None:
        """Get ready for the first epoch, or for the one after the last saved epoch."""
        with self._timed():
            model, method, snapshot = self.model, self.method, self.snapshot
            method.begin(model, snapshot)
            self._edges = with_inverses(method.facts(snapshot))
            self._retracted_edges = with_inverses(self._retracted)
            self._num_edges = len(self._edges) + len(self._retracted_edges)
            self._valid = method.validation(snapshot)
            for edges in (self._edges, self._retracted_edges, self._valid):
                self._require_rows(edges)
            new = with_inverses(no_facts()) if self._review else self._edges
            model.expect(max(1.0, method.facts_per_entity(new, snapshot)))
            self._loss = method.loss(model)
            self._begin_optimizer()
            self._sample = self._validation_sample()
        if saved is not None and saved.epoch is not None and saved.training:
            self.load_state(saved.epoch, saved.training)

    def _begin_optimizer(self) -> None:
        """The optimizer, with what it carries over, and the average."""
        model, method = self.model, self.method
        self._optimizer = optimizer_of(self._config, model.tables, model.backend)
        self._optimizer.learning_rate = method.learning_rate(self.snapshot)
        carried = method.optimizer_state()
        if carried:
            self._optimizer.load_state(grown(carried, self._optimizer.state()))
        self._carries_optimizer = carried is not None
        self._gradient = Gradient.like(model.tables)
        self._average: Average | None = None
        if self._config.training.parameter_averaging:
            steps = self._num_edges // method.batch_size(self._num_edges)
            interval = averaging_interval(len(model.tables.entity), steps)
            decay = self._config.training.averaging_decay
            self._average = Average(model.tables, decay, interval)

    def train(self) -> None:
        """Epochs until validation no longer gains; then the best epoch is restored."""
        self._listener(
            SnapshotStarted(
                snapshot=self.snapshot.index,
                train_facts=self.num_facts,
                entities=self._num_entities,
                relations=self.snapshot.num_relations,
                max_epochs=self.method.max_epochs(self.snapshot),
            )
        )
        while not self._finished():
            self._epoch()
            if self._saver is not None:
                self._saver.save(self.state)
            interrupt.check()
        self._restore_best()

    def _restore_best(self) -> None:
        if self._best:
            self.model.tables = Parameters.from_named(self._best, "best")
            self.method.load_working_state(without_prefix("best-working.", self._best))
        if self._carries_optimizer:
            best = without_prefix("best-optimizer.", self._best)
            self.method.keep_optimizer(best or self._optimizer.state())

    def finish(self) -> TrainingResult:
        """The method updates what it carries over."""
        with self._timed():
            if not self._review:
                self.method.end(self.model, self.snapshot)
        done = self.progress
        seconds = done.seconds + self._seconds_outside_epochs
        valid_mrr, validation = self.best_valid_mrr, done.validation_seconds
        return TrainingResult(done.epochs, done.best_epoch, valid_mrr, seconds, validation)

    @property
    def num_facts(self) -> int:
        """The facts to train on, without inverses."""
        return len(self._edges) // 2

    @property
    def best_valid_mrr(self) -> float:
        """The best validation MRR so far; nan without validation facts."""
        validated = self.progress.epochs and len(self._valid)
        return self.progress.best_mrr if validated else math.nan

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain data from which `load_state` continues bit for bit."""
        tensors = self.model.tables.named("tables") | self._optimizer.state()
        tensors |= with_prefix("working.", self.method.working_state())
        if self._average is not None:
            tensors |= self._average.tables.named("mean")
        if self.progress.epochs != self.progress.best_epoch:
            tensors |= self._best
        return tensors, asdict(self.progress)

    def load_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Inverse of `state`; the tensors are placed on the device of the run. DamagedFile if they
        are not of this training; it must not go on then."""
        device = self._config.training.device
        tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
        try:
            self._require_alike(tensors)
            self._load_state(tensors, progress)
        except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
            what = f"{type(error).__name__} {error}".splitlines()[0]
            raise DamagedFile(f"it is of another training ({what})") from error

    def _require_alike(self, tensors: Mapping[str, Tensor]) -> None:
        """ValueError if a table is missing or of another shape or type than here."""
        tables = self.model.tables
        parts = [tables.named("tables"), self._optimizer.state()]
        parts += [tables.named("mean")] if self._average is not None else []
        parts += [tables.named("best")] if "best.entity" in tensors else []
        for name, own in ((name, part[name]) for part in parts for name in part):
            found = tensors[name]
            if (found.shape, found.dtype) != (own.shape, own.dtype):
                raise ValueError(f"{name} has the shape {tuple(found.shape)}")

    def _load_state(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        self.progress = PROGRESS.validate_python(dict(progress))
        self.model.tables = Parameters.from_named(tensors, "tables").clone()
        self._optimizer.load_state(tensors)
        self.method.load_working_state(without_prefix("working.", tensors))
        if self._average is not None:
            self._average.tables = Parameters.from_named(tensors, "mean").clone()
        self._best = {n: tensors[n].clone() for n in tensors if n.startswith(("best.", "best-"))}
        if self.progress.epochs == self.progress.best_epoch:
            self._best = self._copies()

    def _finished(self) -> bool:
        epochs, method = self.progress.epochs, self.method
        if not self._num_edges or epochs >= method.max_epochs(self.snapshot):
            return True
        no_gain = self.progress.epochs_without_gain >= method.patience(self.snapshot)
        return no_gain and epochs >= method.min_epochs

    def _epoch(self) -> None:
        started = time.perf_counter()
        loss = self._train_epoch()
        trained = time.perf_counter()
        mrr = self._validate()
        ended = time.perf_counter()
        progress = self.progress
        progress.epochs += 1
        progress.seconds += ended - started
        progress.validation_seconds += ended - trained
        value = mrr if not math.isnan(mrr) else -loss
        if value > progress.best_mrr or not self._best:
            progress.best_mrr, progress.best_epoch = value, progress.epochs
            self._best = self._copies()
        if progress.is_gain(value, self._config.training.min_relative_gain):
            progress.gain_mrr, progress.gain_epoch = value, progress.epochs
        self._listener(
            EpochFinished(
                snapshot=self.snapshot.index,
                epoch=progress.epochs,
                loss=loss,
                valid_mrr=mrr,
                best_mrr=self.best_valid_mrr,
                epochs_without_gain=progress.epochs_without_gain,
                facts_per_second=self._num_edges / (trained - started),
                seconds=progress.seconds,
            )
        )

    def _train_epoch(self) -> float:
        """One pass over the facts, new and replayed; the mean loss of a fact."""
        model, total, edges = self.model, 0.0, self._epoch_edges()
        self._num_edges = len(edges) + len(self._retracted_edges)
        whole = self.method.retraction_batch_size
        for batch in self._batches(edges):
            loss = self._loss.add_gradient(model.tables, batch, self._gradient)
            if batch.retracts and whole is not None:
                for part in self._gradient:  # one retracted fact weighs as one among many
                    part.scale(len(batch) / whole)
            loss += self.method.penalty(model, self._gradient)
            self.method.adjust(model, self._gradient)
            self._optimizer.apply(model.tables, self._gradient)
            self.method.after_step(model, self._gradient)
            self.progress.steps += 1
            if self._average is not None:
                self._average.update(model.tables, self.progress.steps)
            model.backend.clear(self._gradient)
            if not math.isfinite(loss):
                raise LearningFailed("the loss is no longer finite; lower training.learning_rate")
            total += loss * len(batch)
            interrupt.check()
        return total / self._num_edges

    def _epoch_edges(self) -> Facts:
        """The new facts, and the known facts that the method replays, each with its inverse."""
        replayed = self.method.replayed_facts(self.snapshot, self.progress.epochs)
        self._require_rows(replayed)
        return np.concatenate([self._edges, with_inverses(replayed)])

    def _require_rows(self, facts: Facts) -> None:
        """An IndexError if a fact has an id without a row: a kernel would write elsewhere."""
        tables = self.model.tables
        if len(facts):
            entities, relations = facts[:, (0, 2)], facts[:, 1]
            within = entities.max() < len(tables.entity) and relations.max() < len(tables.relation)
            if not (within and facts.min() >= 0):
                raise IndexError("a fact has an id without a row")

    def _batches(self, edges: Facts) -> Iterator[Batch]:
        """One epoch: the facts, then the retracted facts."""
        entities, method = self.snapshot.num_entities, self.method
        purpose = TRAIN, self.snapshot.index, self.progress.epochs
        generator = stream(self._config.training.seed, *purpose)
        facts = self._fact_batches(edges, entities, generator)
        lowered = max(1, method.negatives(self.model))
        size = method.retraction_batch_size or method.batch_size(self._num_edges)
        return chain(
            facts, retraction_batches(self._retracted_edges, size, lowered, entities, generator)
        )

    def _fact_batches(
        self, edges: Facts, entities: int, generator: np.random.Generator
    ) -> Iterator[Batch]:
        """The facts once, contrasted with others of the first `entities`, which stand for all."""
        training, negatives = self._config.training, self.method.negatives(self.model)
        size = self.method.batch_size(self._num_edges)
        if negatives:
            share = training.negatives_shared_by
            return batches(edges, size, negatives, entities, generator, share)
        fraction, all_below = training.candidate_fraction, training.all_candidates_below
        limits = {"all_below": all_below, "most": training.max_candidates}
        limits["represented"] = self.snapshot.num_entities
        return query_batches(edges, size, generator, entities, fraction, **limits)

    @property
    def _inference_tables(self) -> Parameters:
        """The tables that would be used for inference if training ended now."""
        return self.model.tables if self._average is None else self._average.tables

    def _validation_sample(self) -> ValidationSample | None:
        """What validation facts are ranked among, where that is not all entities."""
        size = self._config.training.validation_candidates
        few = not size or size >= self.snapshot.num_entities
        if few or not len(self._valid) or not self.method.ranks_any_rows:
            return None
        generator = stream(self._config.training.seed, RANK, self.snapshot.index)
        return self._validator.sample(self._valid, self.snapshot, size, generator)

    def _validate(self) -> float:
        training, tables, sample = self.model.tables, self._inference_tables, self._sample
        if sample is None:
            self.model.tables = tables
            predictor = self.method.predictor(self.model)
            mrr = self._validator.mrr(predictor, self._valid, self.snapshot)
        else:
            rows = index(sample.entities, tables.device)
            self.model.tables = Parameters(tables.entity[rows], tables.relation, tables.extra)
            mrr = sample.mrr(self.method.predictor(self.model))
        self.model.tables = training
        return mrr

    def _copies(self) -> State:
        """The current epoch as the best, in the memory of the last one."""
        best = self._inference_tables.named("best")
        best |= with_prefix("best-working.", self.method.working_state())
        if self._carries_optimizer:
            best |= with_prefix("best-optimizer.", self._optimizer.state())
        last = self._best
        return {
            name: last[name].copy_(tensor) if name in last else tensor.clone()
            for name, tensor in best.items()
        }

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._seconds_outside_epochs += time.perf_counter() - started


def restored(config: RunConfig, tensors: Mapping[str, Tensor]) -> tuple[Model, Method]:
    """Model and method from the tensors of `learned_tensors`."""
    model, method = Model(config), method_named(config.method.name)(config)
    restore(model, method, tensors)
    return model, method


def restore(model: Model, method: Method, tensors: Mapping[str, Tensor]) -> None:
    """Load the tensors of `learned_tensors`, and place them on the device of the run."""
    model.tables = Parameters.from_named(tensors, "tables").to(model.config.training.device)
    method.load_state(without_prefix("method.", tensors))


def learned_tensors(model: Model, method: Method) -> dict[str, Tensor]:
    """The tables of the model and the state of the method, for a file."""
    return model.tables.named("tables") | with_prefix("method.", method.state())
