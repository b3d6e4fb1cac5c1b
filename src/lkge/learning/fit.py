"""One snapshot: epochs of steps, validation after each, early stop, best tables restored.

A step is the same for every method:

    batch → gradient of the objective → the method adds its penalty → the method adjusts
          → the optimizer applies → the method looks back → the step enters the mean

The tables that are validated and restored are the mean, where the settings want one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from torch import Tensor

from lkge.config import RunConfig
from lkge.data.batches import Batch, batches, question_batches, refutations
from lkge.data.snapshots import Facts, Snapshot, no_facts, with_inverses
from lkge.errors import RunError
from lkge.evaluation.ranking import Validator
from lkge.learning.average import Average
from lkge.learning.checkpoint import with_prefix, without_prefix
from lkge.learning.optimizers import Optimizer, grown, optimizer_of
from lkge.learning.progress import EpochFinished, Listener
from lkge.methods.base import Method, State
from lkge.models.model import TRAIN, Model, stream
from lkge.models.parameters import Gradient, Parameters


@dataclass
class Course:
    """How a fit stands: epochs done, the best of them, and the time taken.

    `best_mrr` is on validation facts; where there are none, it is the least training loss, negated.
    `gain_mrr` is the one that the next must surpass by some share to count as a gain.
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
        """Epochs since the last that was a gain."""
        return self.epochs - self.gain_epoch

    @property
    def is_at_best(self) -> bool:
        """Whether the last epoch is the best."""
        return self.epochs == self.best_epoch

    def is_gain(self, mrr: float, share: float) -> bool:
        """Whether `mrr` is better than at the last gain by more than a share of that."""
        return not math.isfinite(self.gain_mrr) or mrr > self.gain_mrr + share * abs(self.gain_mrr)


class Fit:
    """The learning of one snapshot by one method; `begin` of the method has been called.

    `retracted` are facts that no longer hold: their score is lowered while the others are learned.
    """

    def __init__(
        self,
        model: Model,
        method: Method,
        snapshot: Snapshot,
        validator: Validator,
        retracted: Facts | None = None,
    ) -> None:
        self.model = model
        self.method = method
        self.snapshot = snapshot
        self.course = Course()
        self._validator = validator
        self._edges = with_inverses(method.facts(snapshot))
        self._retracted = with_inverses(no_facts() if retracted is None else retracted)
        self._valid: Facts = method.validation(snapshot)
        model.expect(max(1.0, method.facts_per_entity(self._edges, snapshot)))
        self._objective = method.loss(model)
        self._optimizer: Optimizer = optimizer_of(model.config, model.tables, model.backend)
        self._carries_optimizer = self._take_up(method.optimizer_state())
        self._gradient = Gradient.like(model.tables)
        self._mean = Average.of(model.tables) if model.config.training.parameter_averaging else None
        self._best: Parameters | None = None
        self._best_working: State = {}
        self._best_optimizer: State = {}

    @property
    def num_facts(self) -> int:
        """The facts to train on, without inverses."""
        return len(self._edges) // 2

    @property
    def _num_edges(self) -> int:
        return len(self._edges) + len(self._retracted)

    @property
    def best_valid_mrr(self) -> float:
        """The best validation MRR so far; nan where nothing was validated."""
        validated = self.course.epochs and len(self._valid)
        return self.course.best_mrr if validated else math.nan

    def run(self, listener: Listener, save: Callable[[], None]) -> None:
        """Learn until validation no longer gains; then go back to the best epoch."""
        while not self._finished():
            self._epoch(listener)
            save()
        if self._best is not None:
            self.model.tables = self._best
            self.method.load_working_state(self._best_working)
        if self._carries_optimizer:
            self.method.keep_optimizer(self._best_optimizer or self._optimizer.state())

    def _take_up(self, kept: State | None) -> bool:
        """Go on with what the optimizer had gathered, if that is carried; say whether it is."""
        if kept:
            self._optimizer.load_state(grown(kept, self._optimizer.state()))
        return kept is not None

    def _finished(self) -> bool:
        course, method = self.course, self.method
        learned = course.epochs_without_gain >= method.patience(self.snapshot)
        return (
            not self._num_edges
            or course.epochs >= self.config.training.max_epochs
            or (learned and course.epochs >= method.fewest_epochs)
        )

    @property
    def _config(self) -> RunConfig:
        return self.model.config

    def _epoch(self, listener: Listener) -> None:
        started = time.perf_counter()
        loss = self._train()
        trained = time.perf_counter()
        mrr = self._validate()
        ended = time.perf_counter()
        course = self.course
        course.epochs += 1
        course.seconds += ended - started
        course.validation_seconds += ended - trained
        gained = mrr if not math.isnan(mrr) else -loss
        if gained > course.best_mrr or self._best is None:
            course.best_mrr, course.best_epoch = gained, course.epochs
            self._best = self._answering.clone()
            self._best_working = _copies(self.method.working_state())
            self._best_optimizer = _copies(self._carried_optimizer())
        if course.is_gain(gained, self.config.training.min_relative_gain):
            course.gain_mrr, course.gain_epoch = gained, course.epochs
        listener(
            EpochFinished(
                snapshot=self.snapshot.index,
                epoch=course.epochs,
                loss=loss,
                valid_mrr=mrr,
                best_mrr=self.best_valid_mrr,
                epochs_without_gain=course.epochs_without_gain,
                facts_per_second=self._num_edges / (trained - started),
                seconds=course.seconds,
            )
        )

    def _train(self) -> float:
        """One pass over the facts; the mean loss a fact."""
        model, total = self.model, 0.0
        for batch in self._batches():
            loss = self._objective.add_gradient(model.tables, batch, self._gradient)
            loss += self.method.penalty(model, self._gradient)
            self.method.adjust(model, self._gradient)
            self._optimizer.apply(model.tables, self._gradient)
            self.method.after_step(model, self._gradient)
            self._take_into_mean()
            model.backend.clear(self._gradient)
            if not math.isfinite(loss):
                raise RunError("the loss is no longer finite; lower --learning-rate")
            total += loss * len(batch)
        return total / self._num_edges

    def _batches(self) -> Iterator[Batch]:
        """One epoch: the facts, then those that no longer hold."""
        config = self._config
        generator = stream(config.training.seed, TRAIN, self.snapshot.index, self.course.epochs)
        negatives = self.method.negatives(self.model)
        size, entities = self.method.batch_size(self._num_edges), self.snapshot.num_entities
        return chain(
            batches(
                self._edges,
                size,
                negatives,
                entities,
                generator,
                config.training.negatives_shared_by,
            )
            if negatives
            else question_batches(
                self._edges, size, generator, entities, config.training.candidate_fraction
            ),
            refutations(self._retracted, size, max(1, negatives), entities, generator),
        )

    def _take_into_mean(self) -> None:
        self.course.steps += 1
        if self._mean is not None:
            self._mean.update(self.model.tables, self.course.steps)

    @property
    def _answering(self) -> Parameters:
        """The tables that would answer if learning ended here."""
        return self.model.tables if self._mean is None else self._mean.tables

    def _validate(self) -> float:
        learning, self.model.tables = self.model.tables, self._answering
        predictor = self.method.predictor(self.model)
        mrr = self._validator.mrr(predictor, self._valid, self.snapshot)
        self.model.tables = learning
        return mrr

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain data from which `load_state` continues bit for bit."""
        tensors = self.model.tables.named("tables") | self._optimizer.state()
        tensors |= with_prefix("working.", self.method.working_state())
        if self._mean is not None:
            tensors |= self._mean.tables.named("mean")
        if not self.course.is_at_best and self._best is not None:
            tensors |= self._best.named("best") | with_prefix("best-working.", self._best_working)
            tensors |= with_prefix("best-optimizer.", self._best_optimizer)
        return tensors, asdict(self.course)

    def load_state(self, tensors: Mapping[str, Tensor], course: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
        self.course = Course(**course)
        self.model.tables = Parameters.from_named(tensors, "tables").clone()
        self._optimizer.load_state(tensors)
        self.method.load_working_state(without_prefix("working.", tensors))
        if self._mean is not None:
            self._mean = Average(Parameters.from_named(tensors, "mean").clone())
        if not self.course.is_at_best:
            self._best = Parameters.from_named(tensors, "best").clone()
            self._best_working = without_prefix("best-working.", tensors)
            self._best_optimizer = without_prefix("best-optimizer.", tensors)
        else:
            self._best = self._answering.clone()
            self._best_working = _copies(without_prefix("working.", tensors))
            self._best_optimizer = _copies(self._carried_optimizer())

    def _carried_optimizer(self) -> State:
        """What the optimizer has gathered, where that is carried over."""
        return self._optimizer.state() if self._carries_optimizer else {}


def _copies(tensors: Mapping[str, Tensor]) -> State:
    return {name: tensor.clone() for name, tensor in tensors.items()}
