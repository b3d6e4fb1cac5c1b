from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from tests.training.made import bytes_of, made_graph, names_of, quick, without_seconds

from lkge.config import METHOD_CONFIGS, RunConfig
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, no_facts
from lkge.errors import UnknownName
from lkge.evaluation.ranking import Evaluator, Validator
from lkge.evaluation.results import PROTOCOLS, Results, union
from lkge.methods import METHODS, Method
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor
from lkge.training.events import (
    EpochFinished,
    Event,
    RunFinished,
    RunStarted,
    SnapshotFinished,
    SnapshotStarted,
)
from lkge.training.loop import Learned, Loop

STEP = ["penalty", "adjust", "after_step"]
ASKED_AGAIN = ("inference", "inference")
FACTS_TRAINED = {
    "re-train": [24, 48, 72],
    "emr": [24, 48, 72],
    "mean": [24, 0, 0],
    "lan": [24, 0, 0],
}
"""Facts that are trained on in each snapshot, where they are not the new ones alone."""

EVERY_METHOD = pytest.mark.parametrize("method", sorted(METHODS))

pytestmark = pytest.mark.usefixtures("one_thread")


class Recorder(Method):
    """Fine-tune that notes every call, every snapshot that it is shown, and its tables."""

    name = "recorder"
    summary = "notes every call"

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.calls: list[str] = []
        self.seen: list[Snapshot] = []
        self.grown: list[Parameters] = []
        self.ended: list[Parameters] = []
        self.idle_steps = 0
        self._before = b""

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        self._note("grow", snapshot)
        super().grow(model, snapshot)
        self.grown.append(model.tables.clone())

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        self._note("begin", snapshot)
        assert len(model.tables.entity) == snapshot.num_entities
        assert len(model.tables.relation) == 2 * snapshot.num_relations

    def facts(self, snapshot: Snapshot) -> Facts:
        self._note("facts", snapshot)
        return super().facts(snapshot)

    def validation(self, snapshot: Snapshot) -> Facts:
        self._note("validation", snapshot)
        return super().validation(snapshot)

    def penalty(self, model: Model, gradient: Gradient) -> float:
        self.calls.append("penalty")
        return super().penalty(model, gradient)

    def adjust(self, model: Model, gradient: Gradient) -> None:
        self.calls.append("adjust")
        self._before = bytes_of(model.tables)

    def after_step(self, model: Model, gradient: Gradient) -> None:
        self.calls.append("after_step")
        moved = bytes_of(model.tables) != self._before
        self.idle_steps += not (moved and gradient.entity.values.any())

    def end(self, model: Model, snapshot: Snapshot) -> None:
        self._note("end", snapshot)
        self.ended.append(model.tables.clone())

    def inference_parameters(self, model: Model) -> Parameters:
        self.calls.append("inference")
        return super().inference_parameters(model)

    def _note(self, call: str, snapshot: Snapshot) -> None:
        self.calls.append(call)
        self.seen.append(snapshot)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Recorder]]:
    monkeypatch.setitem(METHODS, Recorder.name, Recorder)
    monkeypatch.setitem(METHOD_CONFIGS, Recorder.name, Recorder.Config)
    yield Recorder
    monkeypatch.undo()
    assert Recorder.name not in METHODS


def recorded(graph: GrowingGraph, **changes: int) -> tuple[Recorder, Learned]:
    loop = Loop(graph, quick("recorder", **changes))
    learned = loop.run()
    assert isinstance(loop._method, Recorder)
    return loop._method, learned


def with_snapshot(graph: GrowingGraph, changed: Snapshot) -> GrowingGraph:
    shots = tuple(changed if s.index == changed.index else s for s in graph.snapshots)
    return dataclasses.replace(graph, snapshots=shots)


@pytest.mark.usefixtures("recorder")
def test_the_hooks_are_called_in_their_documented_order() -> None:
    method, _ = recorded(made_graph(), max_epochs=2, patience=9)
    epoch = [*STEP, *STEP, "inference"]
    learning = ["begin", "facts", "validation", *epoch, *epoch, "end", "inference"]
    later = ["grow", "inference", *learning]
    called = [
        call
        for call, following in pairwise([*method.calls, ""])
        if (call, following) != ASKED_AGAIN
    ]
    assert called == ["grow", *learning, *later, *later]
    assert method.idle_steps == 0


@pytest.mark.usefixtures("recorder")
def test_a_method_sees_each_snapshot_once_and_no_test_fact() -> None:
    graph = made_graph()
    method, _ = recorded(graph)
    assert [s.index for s in method.seen] == sorted(s.index for s in method.seen)
    assert {s.index for s in method.seen} == {0, 1, 2}
    for seen in method.seen:
        own = graph.snapshots[seen.index]
        assert len(seen.test) == 0
        assert np.array_equal(seen.train, own.train)
        assert np.array_equal(seen.valid, own.valid)


@EVERY_METHOD
def test_no_test_fact_bears_on_what_is_learned(method: str) -> None:
    graph = made_graph()
    blind = dataclasses.replace(
        graph, snapshots=tuple(dataclasses.replace(s, test=no_facts()) for s in graph.snapshots)
    )
    one, other = (Loop(each, quick(method)).run() for each in (graph, blind))
    assert bytes_of(one.tables) == bytes_of(other.tables)
    assert math.isnan(other.results.mrr)
    last = Evaluator(graph).accuracies(other.predictor, 2, [0, 1, 2])
    assert one.results.mrr == pytest.approx(np.mean([cell["paper"].mrr for cell in last]))


@pytest.mark.usefixtures("recorder")
def test_forward_transfer_is_measured_before_training() -> None:
    graph = made_graph()
    method, learned = recorded(graph)
    evaluator = Evaluator(graph)

    def asked(tables: Parameters, i: int, j: int, protocol: str) -> float:
        predictor = TablePredictor.of(tables, learned.model.score, learned.model.backend)
        return evaluator.accuracies(predictor, i, [j])[0][protocol].mrr

    for name in PROTOCOLS:
        found = learned.results.protocols[name]
        assert len(found.forward) == len(graph) - 1
        assert [cell.mrr for cell in found.forward] == [
            asked(method.grown[i], i, i, name) for i in (1, 2)
        ]
        assert [[cell.mrr for cell in row] for row in found.matrix] == [
            [asked(method.ended[i], i, j, name) for j in range(i + 1)] for i in range(3)
        ]


@pytest.mark.usefixtures("recorder")
def test_the_best_tables_are_handed_to_the_end_and_used_for_inference() -> None:
    method, learned = recorded(made_graph(), max_epochs=9, patience=1)
    assert bytes_of(learned.tables) == bytes_of(method.ended[-1])
    assert any(r.best_epoch < r.epochs for r in learned.results.snapshots)
    inherited = method.grown[1].entity[: len(method.ended[0].entity)]
    assert inherited.equal(method.ended[0].entity)


@EVERY_METHOD
def test_the_events_tell_the_whole_story(method: str) -> None:
    graph, events = made_graph(), list[Event]()
    results = Loop(graph, quick(method), listener=events.append).run().results
    expected = ["RunStarted"]
    for record in results.snapshots:
        expected += ["Evaluating"] if record.index else []
        expected += ["SnapshotStarted", *["EpochFinished"] * record.epochs]
        expected += ["Evaluating", "SnapshotFinished"]
    assert names_of(events) == [*expected, "RunFinished"]
    assert events[0] == RunStarted("made", method, snapshots=3, snapshot=0, epochs_done=0)
    assert events[-1] == RunFinished(results.seconds)
    last = next(e for e in reversed(events) if isinstance(e, SnapshotFinished))
    assert (last.paper_mrr, last.seconds) == (results.mrr, results.snapshots[-1].seconds)
    started = [e for e in events if isinstance(e, SnapshotStarted)]
    trained = [e.train_facts for e in started]
    if method == "dicgrl":  # replays what the new facts concern
        assert trained[0] == 24 < trained[1] <= 48 < trained[2] <= 72
    else:
        assert trained == FACTS_TRAINED.get(method, [24, 24, 24])


@EVERY_METHOD
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(method: str) -> None:
    first, again, other = (Loop(made_graph(), quick(method, seed=seed)).run() for seed in (3, 3, 4))
    assert bytes_of(first.tables) == bytes_of(again.tables)
    assert without_seconds(first.results) == without_seconds(again.results)
    assert bytes_of(first.tables) != bytes_of(other.tables)


@EVERY_METHOD
def test_a_snapshot_without_any_fact_is_lived_through(method: str) -> None:
    graph = made_graph()
    before = graph.snapshots[0]
    empty = Snapshot(
        1, no_facts(), no_facts(), no_facts(), before.num_entities, before.num_relations
    )
    results = Loop(with_snapshot(graph, empty), quick(method)).run().results
    assert len(results.snapshots) == 3
    record, cell = results.snapshots[1], results.protocols["paper"].matrix[1][1]
    assert (record.new_facts, cell.queries) == (0, 0)
    assert math.isnan(cell.mrr)
    assert results.protocols["paper"].forward[0].queries == 0
    assert (results.snapshots[2].epochs > 0) == (method not in ("mean", "lan"))
    if method != "re-train":
        assert record.epochs == 0
        assert math.isnan(record.valid_mrr)


def test_the_validation_mrr_is_of_the_facts_that_selected() -> None:
    graph = made_graph()
    mute = dataclasses.replace(graph.snapshots[1], valid=no_facts())
    for method, is_there in (("re-train", True), ("fine-tune", False)):
        events: list[Event] = []
        loop = Loop(with_snapshot(graph, mute), quick(method), listener=events.append)
        first, second, _ = loop.run().results.snapshots
        assert math.isnan(second.valid_mrr) is not is_there
        for record in (first, second) if is_there else (first,):
            assert record.valid_mrr == max(
                event.valid_mrr
                for event in events
                if isinstance(event, EpochFinished) and event.snapshot == record.index
            )


def test_what_is_kept_of_all_validation_facts_is_measured() -> None:
    graph = made_graph()
    learned = Loop(graph, quick(max_epochs=9)).run()
    first, *later = learned.results.snapshots
    assert first.union_valid_mrr == pytest.approx(first.valid_mrr)
    validator = Validator(graph.snapshots)
    each = [validator.mrr(learned.predictor, s.valid, s) for s in graph.snapshots]
    assert later[-1].valid_mrr == pytest.approx(each[-1])
    assert later[-1].union_valid_mrr == pytest.approx(np.mean(each))
    assert all(record.union_valid_mrr != record.valid_mrr for record in later)


def test_what_is_carried_over_is_measured() -> None:
    graph = made_graph()
    carried = {
        method: [r.carried_bytes for r in Loop(graph, quick(method)).run().results.snapshots]
        for method in ("fine-tune", "snapshot", "lkge", "re-train")
    }
    assert carried["fine-tune"] == carried["snapshot"] == [0, 0, 0]
    rows = [s.num_entities + 2 * s.num_relations for s in graph.snapshots]
    assert carried["lkge"] == [4 * each for each in rows]
    assert carried["re-train"] == [12 * (24 + 8) * (i + 1) for i in range(3)]


def test_time_is_that_of_learning_not_of_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    class Slow(Method):
        name = "slow"

        def grow(self, model: Model, snapshot: Snapshot) -> None:
            now[0] += 1
            super().grow(model, snapshot)

        def begin(self, model: Model, snapshot: Snapshot) -> None:
            now[0] += 10

        def penalty(self, model: Model, gradient: Gradient) -> float:
            now[0] += 100
            return 0.0

        def end(self, model: Model, snapshot: Snapshot) -> None:
            now[0] += 1000

    def slow_ranked(self: Evaluator, predictor: TablePredictor, i: int, tests: list[int]) -> object:
        now[0] += 1e6
        return quickly(self, predictor, i, tests)

    quickly = Evaluator.ranked
    monkeypatch.setitem(METHODS, "slow", Slow)
    monkeypatch.setitem(METHOD_CONFIGS, "slow", Slow.Config)
    monkeypatch.setattr(Evaluator, "ranked", slow_ranked)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    results = Loop(made_graph(), quick("slow", max_epochs=2, patience=9)).run().results
    assert [record.seconds for record in results.snapshots] == [1 + 10 + 4 * 100 + 1000] * 3
    assert [record.validation_seconds for record in results.snapshots] == [0.0] * 3


def test_the_relations_of_the_last_model_add_up_to_its_accuracy() -> None:
    found: list[Results] = []
    graph = made_graph()
    loop = Loop(graph, quick("fine-tune"))
    loop.listener = lambda event: found.append(loop.results)
    results = loop.run().results
    assert [each.relations for each in found if len(each.snapshots) < len(graph)][-1] == {}
    for protocol, relations in results.relations.items():
        assert set(relations) <= set(graph.vocabulary.relations)
        whole, final = union(relations.values()), results.protocols[protocol].final
        assert (whole.mrr, whole.queries) == (pytest.approx(final.mrr), final.queries)


def test_an_unknown_method_is_an_error_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'lkge'"):
        Loop(made_graph(), quick("lkgee"))
