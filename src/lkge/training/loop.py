"""A benchmark run: a method learns the snapshots of a growing graph and is evaluated after each."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from lkge import provenance
from lkge.config import RunConfig
from lkge.data.history import NO_HISTORY, History
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import GrowingGraph, Snapshot, no_facts
from lkge.evaluation.ranking import Evaluator, RankedTest, Validator, by_relation
from lkge.evaluation.results import (
    MOST_RELATIONS,
    PROTOCOLS,
    Accuracy,
    ProtocolResult,
    Results,
    SnapshotRecord,
)
from lkge.methods import method_named
from lkge.methods.base import Method
from lkge.models.model import Model
from lkge.models.parameters import Parameters
from lkge.models.predictor import Predictor
from lkge.training import events
from lkge.training.checkpoint import TRAINING, Checkpoints, CheckpointSaver, Saved
from lkge.training.interrupt import stops_between_steps
from lkge.training.trainer import Trainer, TrainingResult, learned_tensors, restore

Cells = list[dict[str, Accuracy]]
"""Accuracies by protocol, on one test set each."""


@dataclasses.dataclass(frozen=True)
class Learned:
    """A finished run: results, model and method."""

    results: Results
    model: Model
    method: Method

    @property
    def tables(self) -> Parameters:
        """The inference parameters."""
        return self.method.inference_parameters(self.model)

    @property
    def predictor(self) -> Predictor:
        """The predictor, without names."""
        return self.method.predictor(self.model)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that was learned, for a file; `trainer.restored` is the inverse."""
        return learned_tensors(self.model, self.method)


class Loop:
    """One method on one growing graph, from the first snapshot or from a checkpoint.

    A checkpoint of an epoch is written `seconds_between_checkpoints` after the last one.
    """

    def __init__(
        self,
        graph: GrowingGraph,
        config: RunConfig,
        checkpoints: Checkpoints | None = None,
        listener: events.Listener = events.ignore,
        seconds_between_checkpoints: float = 2.0,
    ) -> None:
        self.graph, self.config = graph, config
        record, digest = provenance.provenance(), graph.digest()
        name, settings = config.method.name, config.to_dict()
        self.results = Results(graph.name, name, settings, provenance=record, data_digest=digest)
        self._model = self._new_model()
        self._method: Method = method_named(config.method.name)(config)
        self._evaluator = Evaluator(graph)
        self._checkpoints, self._interval = checkpoints, seconds_between_checkpoints
        self.listener = listener

    def run(self) -> Learned:
        """Learn all snapshots that are not learned yet."""
        saved = self._checkpoints.load() if self._checkpoints else None
        if saved is None:
            self._save_start()
        else:
            before = Results.from_json(saved.progress["results"])
            record = provenance.continued(before.provenance, self.results.provenance)
            self.results = dataclasses.replace(before, provenance=record)
            self._restore(saved)
        first = len(self.results.snapshots)
        done = saved.training["epochs"] if saved and saved.epoch else 0
        name, method = self.graph.name, self.config.method.name
        self.listener(events.RunStarted(name, method, len(self.graph), first, epochs_done=done))
        with stops_between_steps():
            for snapshot in self.graph.snapshots[first:]:
                self._learn(snapshot, saved)
                saved = None
        self.listener(events.RunFinished(self.results.seconds))
        return Learned(self.results, self._model, self._method)

    def _restore(self, saved: Saved) -> None:
        """Go back to the start of the snapshot that was being learned."""
        restore(self._model, self._method, saved.start)

    def _learn(self, snapshot: Snapshot, saved: Saved | None) -> None:
        """Train a snapshot without its test facts; evaluate before (forward transfer) and after."""
        validator = Validator(self.graph.snapshots[: snapshot.index + 1])
        trainer = self._trainer(dataclasses.replace(snapshot, test=no_facts()), validator)
        trainer.prepare()
        forward = self._evaluate(snapshot.index, [snapshot.index]) if snapshot.index else []
        trainer.begin(saved)
        trainer.train()
        result = trainer.finish()
        row = self._evaluate(snapshot.index, range(snapshot.index + 1))
        record = self._record(snapshot, result, validator)
        self.results = _extended(self.results, record, _cells(row), _cells(forward))
        if snapshot is self.graph.snapshots[-1]:
            self.results = dataclasses.replace(self.results, relations=self._relations(row))
        self._save_start()
        self.listener(
            events.SnapshotFinished(
                snapshot=record.index,
                epochs=record.epochs,
                best_epoch=record.best_epoch,
                valid_mrr=record.valid_mrr,
                paper_mrr=self.results.protocols["paper"].final.mrr,
                current_mrr=self.results.protocols["current"].final.mrr,
                seconds=record.seconds,
            )
        )

    def _new_model(self) -> Model:
        return Model(self.config)

    def _trainer(self, snapshot: Snapshot, validator: Validator) -> Trainer:
        """What learns a snapshot."""
        parts = self._model, self._method, snapshot, validator
        history, saver = self._history(snapshot.index), self._saver()
        return Trainer(*parts, listener=self.listener, saver=saver, history=history)

    def _saver(self) -> CheckpointSaver | None:
        if self._checkpoints is None:
            return None
        return CheckpointSaver(self._checkpoints, self._interval, self._progress())

    def _predictor(self) -> Predictor:
        """What answers now."""
        return self._method.predictor(self._model)

    def _history(self, index: int) -> History:
        """The training facts of the snapshots before this one, if the method uses them."""
        if not self._method.uses_history:
            return NO_HISTORY
        return History(KnownFacts.build([each.train for each in self.graph.snapshots[:index]]))

    def _carried_bytes(self, index: int) -> int:
        """The state of the method, and the facts so far if it uses them."""
        return self._method.carried_bytes() + self._history(index + 1).nbytes

    def _evaluate(self, i: int, tests: Sequence[int]) -> list[RankedTest]:
        """The tests ranked with M_i; after `prepare` of snapshot i it is still M_{i-1}."""
        queries = sum(2 * len(self.graph.snapshots[j].test) for j in tests)
        self.listener(events.Evaluating(i, queries))
        return self._evaluator.ranked(self._predictor(), i, tests)

    def _relations(self, tests: Sequence[RankedTest]) -> dict[str, dict[str, Accuracy]]:
        """By protocol and name of the relation, the accuracy over all tests."""
        name = self.graph.vocabulary.relation_name
        found = by_relation(tests, MOST_RELATIONS)
        return {
            protocol: {name(2 * number): cell for number, cell in relations.items()}
            for protocol, relations in found.items()
        }

    def _record(
        self, snapshot: Snapshot, result: TrainingResult, validator: Validator
    ) -> SnapshotRecord:
        return SnapshotRecord(
            index=snapshot.index,
            new_facts=snapshot.num_facts,
            train_facts=len(snapshot.train),
            entities=snapshot.num_entities,
            relations=snapshot.num_relations,
            **dataclasses.asdict(result),
            carried_bytes=self._carried_bytes(snapshot.index),
            union_valid_mrr=validator.union_mrr(self._predictor()),
            note=self._method.note(),
        )

    def _save_start(self) -> None:
        if self._checkpoints is not None:
            tensors = learned_tensors(self._model, self._method)
            self._checkpoints.save_start(tensors, {**self._progress(), TRAINING: None})

    def _progress(self) -> dict[str, Any]:
        return {"results": self.results.to_json()}


def _cells(tests: Sequence[RankedTest]) -> Cells:
    return [test.accuracies() for test in tests]


def _extended(results: Results, record: SnapshotRecord, row: Cells, forward: Cells) -> Results:
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
