from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from tests.training.made import bytes_of, made_graph, quick

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot, no_facts
from lkge.errors import RunError
from lkge.evaluation.ranking import Validator
from lkge.methods import method_named
from lkge.methods.base import Method, State
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor
from lkge.training.checkpoint import CheckpointSaver
from lkge.training.events import EpochFinished, Event
from lkge.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")


class ScriptedValidator(Validator):
    """Returns the values of a script, and keeps the tables that it has seen."""

    def __init__(self, model: Model, script: Sequence[float]) -> None:
        super().__init__([])
        self.model = model
        self.script = iter(script)
        self.shown: list[bytes] = []

    def mrr(self, predictor: TablePredictor, facts: Facts, snapshot: Snapshot) -> float:
        self.shown.append(bytes_of(self.model.tables))
        return next(self.script)


class ScriptedLoss(Method):
    """Adds losses that drown the objective's, one a step."""

    def __init__(self, config: RunConfig, script: Sequence[float]) -> None:
        super().__init__(config)
        self.script = iter(script)

    def penalty(self, model: Model, gradient: Gradient) -> float:
        return next(self.script)


class EverySaver(CheckpointSaver):
    """Calls a function after every epoch."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function

    def save(self, state: object) -> None:
        self.function()


def begun(trainer: Trainer) -> Trainer:
    """The trainer before its first epoch."""
    trainer.prepare()
    trainer.begin()
    return trainer


def trainer_of(
    config: RunConfig, script: Sequence[float] = (), method: Method | None = None
) -> Trainer:
    """A trainer of the first snapshot, begun; its validation follows the script."""
    snapshot, model = made_graph().snapshots[0], Model(config)
    validator = ScriptedValidator(model, script)
    return begun(Trainer(model, method or Method(config), snapshot, validator))


def run(trainer: Trainer, save: Callable[[], None] = lambda: None) -> list[EpochFinished]:
    events: list[Event] = []
    trainer._listener, trainer._saver = events.append, EverySaver(save)
    trainer.train()
    return [event for event in events if isinstance(event, EpochFinished)]


def shown(trainer: Trainer) -> list[bytes]:
    validator = trainer._validator
    assert isinstance(validator, ScriptedValidator)
    return validator.shown


def test_it_stops_when_patience_ends_and_restores_the_best() -> None:
    trainer = trainer_of(quick(max_epochs=50, patience=3), [0.1, 0.4, 0.3, 0.2, 0.3, 0.9])
    events = run(trainer)
    progress = trainer.progress
    assert (progress.epochs, progress.best_epoch, progress.best_mrr) == (5, 2, 0.4)
    assert bytes_of(trainer.model.tables) == shown(trainer)[1]
    assert len(set(shown(trainer))) == 5
    assert [event.epochs_without_gain for event in events] == [0, 0, 1, 2, 3]
    assert [event.best_mrr for event in events] == [0.1, 0.4, 0.4, 0.4, 0.4]
    assert [event.valid_mrr for event in events] == [0.1, 0.4, 0.3, 0.2, 0.3]


def test_the_same_again_is_no_gain() -> None:
    trainer = trainer_of(quick(max_epochs=50, patience=2), [0.5, 0.5, 0.5, 0.9])
    run(trainer)
    assert (trainer.progress.epochs, trainer.progress.best_epoch) == (3, 1)


def test_a_gain_too_small_does_not_renew_patience_and_is_kept_all_the_same() -> None:
    config = quick(max_epochs=50, patience=2, min_relative_gain=0.05)
    trainer = trainer_of(config, [0.1, 0.4, 0.41, 0.415, 0.9])
    events = run(trainer)
    assert [event.epochs_without_gain for event in events] == [0, 0, 1, 2]
    assert (trainer.progress.best_epoch, trainer.progress.best_mrr) == (4, 0.415)


def test_small_gains_add_up() -> None:
    config = quick(max_epochs=50, patience=2, min_relative_gain=0.05)
    trainer = trainer_of(config, [0.40, 0.41, 0.43, 0.44, 0.44])
    assert [event.epochs_without_gain for event in run(trainer)] == [0, 1, 0, 1, 2]


def test_each_gain_renews_patience() -> None:
    trainer = trainer_of(quick(max_epochs=50, patience=2), [0.1, 0.0, 0.2, 0.1, 0.3, 0.2, 0.1, 0.9])
    run(trainer)
    assert (trainer.progress.epochs, trainer.progress.best_epoch) == (7, 5)


@pytest.mark.parametrize(("most", "epochs"), [(50, 3), (2, 2)])
def test_a_method_may_want_some_epochs_whatever_validation_says(most: int, epochs: int) -> None:
    class Thorough(Method):
        min_epochs = 3

    config = quick(max_epochs=most, patience=1)
    trainer = trainer_of(config, [0.5, 0.4, 0.3, 0.9], Thorough(config))
    run(trainer)
    assert (trainer.progress.epochs, trainer.progress.best_epoch) == (epochs, 1)


def test_it_stops_after_max_epochs() -> None:
    trainer = trainer_of(quick(max_epochs=3, patience=9), [0.1, 0.2, 0.3, 0.4])
    run(trainer)
    assert (trainer.progress.epochs, trainer.progress.best_epoch) == (3, 3)
    assert bytes_of(trainer.model.tables) == shown(trainer)[2]


def test_the_worst_epoch_is_better_than_none() -> None:
    trainer = trainer_of(quick(max_epochs=1), [0.0])
    run(trainer)
    assert (trainer.progress.best_epoch, trainer.progress.best_mrr) == (1, 0.0)


def test_without_validation_facts_the_training_loss_decides() -> None:
    config = quick(max_epochs=50, patience=2, batch_size=1000)
    method = ScriptedLoss(config, [7e3, 1e3, 9e3, 5e3, 0.0])
    trainer = trainer_of(config, [math.nan] * 9, method)
    events = run(trainer)
    assert (trainer.progress.epochs, trainer.progress.best_epoch) == (4, 2)
    assert bytes_of(trainer.model.tables) == shown(trainer)[1]
    assert all(math.isnan(event.valid_mrr) for event in events)


def test_the_real_validator_has_no_opinion_without_facts() -> None:
    snapshot = made_graph().snapshots[0]
    bare = Snapshot(0, snapshot.train, no_facts(), no_facts(), 12, 2)
    model = Model(quick(max_epochs=3, patience=9))
    trainer = begun(Trainer(model, Method(model.config), bare, Validator([bare])))
    events = run(trainer)
    assert len(events) == 3
    assert all(math.isnan(event.valid_mrr) and math.isnan(event.best_mrr) for event in events)
    assert math.isnan(trainer.best_valid_mrr)
    assert trainer.progress.best_mrr == -min(event.loss for event in events)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_an_error_with_a_remedy(loss: float) -> None:
    config = quick(batch_size=1000)
    trainer = trainer_of(config, [0.1] * 9, ScriptedLoss(config, [0.0, loss]))
    with pytest.raises(RunError, match=r"no longer finite; lower training.learning_rate"):
        run(trainer)
    assert trainer.progress.epochs == 1


def test_the_mean_loss_weighs_every_fact_the_same() -> None:
    config = quick(batch_size=32, max_epochs=1, margin=0.0, learning_rate=1e-9)
    plain = run(trainer_of(config, [0.1]))[0].loss
    whole, rest = 32, 16
    raised = run(trainer_of(config, [0.1], ScriptedLoss(config, [3.0, 30.0])))[0].loss
    assert raised - plain == pytest.approx((3.0 * whole + 30.0 * rest) / (whole + rest), rel=1e-4)


def test_nothing_to_train_on_means_no_epoch_and_the_same_tables() -> None:
    class Idle(Method):
        def facts(self, snapshot: Snapshot) -> Facts:
            return no_facts()

    config = quick()
    trainer = trainer_of(config, method=Idle(config))
    before = bytes_of(trainer.model.tables)
    assert run(trainer) == []
    assert trainer.num_facts == 0
    assert math.isnan(trainer.best_valid_mrr)
    assert bytes_of(trainer.model.tables) == before


def test_it_saves_after_every_epoch() -> None:
    trainer = trainer_of(quick(max_epochs=3, patience=9), [0.1, 0.2, 0.3])
    epochs: list[int] = []
    run(trainer, lambda: epochs.append(trainer.progress.epochs))
    assert epochs == [1, 2, 3]


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_it_goes_on_from_its_state_to_the_bit(stop: int) -> None:
    config, script = quick(max_epochs=6, patience=3), [0.1, 0.4, 0.3, 0.2, 0.35, 0.9]
    whole = trainer_of(config, script)
    run(whole)

    first = trainer_of(config, script)
    taken: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def take() -> None:
        tensors, progress = first.state()
        taken.append(({name: tensor.clone() for name, tensor in tensors.items()}, dict(progress)))

    run(first, take)
    second = trainer_of(config, script[stop:])
    second.load_state(*taken[stop - 1])
    run(second)
    assert bytes_of(second.model.tables) == bytes_of(whole.model.tables)
    assert second.progress.epochs == whole.progress.epochs == 5
    assert second.progress.best_epoch == whole.progress.best_epoch == 2


def test_working_state_of_the_method_is_kept() -> None:
    class Counting(Method):
        steps = 0

        def after_step(self, model: Model, gradient: Gradient) -> None:
            self.steps += 1

        def working_state(self) -> dict[str, Any]:
            return {"steps": torch.tensor(self.steps)}

        def load_working_state(self, state: Any) -> None:
            self.steps = int(state["steps"])

    config = quick(max_epochs=2)
    first, second = Counting(config), Counting(config)
    trainer = trainer_of(config, [0.1, 0.2], first)
    run(trainer)
    again = trainer_of(config, [], second)
    again.load_state(*trainer.state())
    assert second.steps == first.steps == 4


def test_time_is_counted_with_and_without_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def ticking(seconds: float, script: Sequence[float]) -> Iterator[float]:
        for each in script:
            clock[0] += seconds
            yield each

    monkeypatch.setattr("lkge.training.trainer.time.perf_counter", lambda: clock[0])
    config = quick(max_epochs=3, patience=9, batch_size=1000)
    method = ScriptedLoss(config, [])
    method.script = ticking(10.0, [0.0] * 3)
    trainer = trainer_of(config, method=method)
    validator = trainer._validator
    assert isinstance(validator, ScriptedValidator)
    validator.script = ticking(1.0, [0.1, 0.2, 0.3])
    events = run(trainer)
    assert trainer.progress.seconds == 33.0
    assert trainer.progress.validation_seconds == 3.0
    assert [event.seconds for event in events] == [11.0, 22.0, 33.0]
    assert events[0].facts_per_second == 2 * trainer.num_facts / 10.0


SOFTMAX: dict[str, Any] = {"loss": "softmax", "score": "complex", "optimizer": "adagrad"}


@pytest.mark.parametrize(
    "changes",
    [{}, SOFTMAX, SOFTMAX | {"loss": "sampled"}],
    ids=["margin", "softmax", "sampled"],
)
def test_facts_that_no_longer_hold_sink_below_what_they_were(changes: dict[str, Any]) -> None:
    config = quick(max_epochs=30, patience=30, **changes)
    model, method = Model(config), Method(config)
    first, second = made_graph().snapshots[:2]
    gone = first.train[:3]

    def study(snapshot: Snapshot, retracted: Facts | None) -> None:
        Trainer(model, method, snapshot, Validator([snapshot]), retracted).run()

    study(first, None)
    before = method.predictor(model).fact_scores(gone)
    study(dataclasses.replace(second, train=no_facts(), valid=no_facts()), gone)
    assert (method.predictor(model).fact_scores(gone) < before).all()


def test_nothing_retracted_changes_no_byte() -> None:
    courses = []
    for retracted in (None, no_facts()):
        config = quick()
        model, method, snapshot = Model(config), Method(config), made_graph().snapshots[0]
        Trainer(model, method, snapshot, Validator([snapshot]), retracted).run()
        courses.append(bytes_of(model.tables))
    assert courses[0] == courses[1]


class Carrying(Method):
    """Carries what its optimizer has gathered."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.kept: State = {}

    def optimizer_state(self) -> State:
        return self.kept

    def keep_optimizer(self, state: State) -> None:
        self.kept = state


def sums_of(trainer: Trainer) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in trainer._optimizer.state().items()}


@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_what_the_optimizer_had_at_the_best_epoch_is_kept(optimizer: str) -> None:
    config = quick(max_epochs=5, patience=3, optimizer=optimizer)
    method, seen = Carrying(config), list[dict[str, bytes]]()
    trainer = trainer_of(config, [0.1, 0.4, 0.3, 0.2, 0.1], method)
    run(trainer, lambda: seen.append(sums_of(trainer)))
    assert trainer.progress.best_epoch == 2
    assert {name: t.numpy().tobytes() for name, t in method.kept.items()} == seen[1] != seen[4]


@pytest.mark.parametrize("stop", [2, 3])
def test_it_is_kept_across_an_interruption(stop: int) -> None:
    config, script = quick(max_epochs=4, patience=3, **SOFTMAX), [0.1, 0.4, 0.3, 0.2]
    whole, method, again = (Carrying(config) for _ in range(3))
    run(trainer_of(config, script, whole))
    first = trainer_of(config, script, method)
    taken: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def take() -> None:
        tensors, progress = first.state()
        taken.append(({name: tensor.clone() for name, tensor in tensors.items()}, dict(progress)))

    run(first, take)
    second = trainer_of(config, script[stop:], again)
    second.load_state(*taken[stop - 1])
    run(second)
    for kept in (method.kept, again.kept):
        assert all(torch.equal(kept[name], tensor) for name, tensor in whole.kept.items())
    assert set(again.kept) == {"sums.entity", "sums.relation"}


def test_the_next_snapshot_goes_on_with_it_and_new_rows_begin_at_zero() -> None:
    config = quick(optimizer="adagrad")
    model, method = Model(config), Carrying(config)
    first, second = made_graph().snapshots[:2]
    run(begun(Trainer(model, method, first, Validator([first]))))
    kept = method.kept["sums.entity"].clone()
    assert kept.all()
    trainer = begun(Trainer(model, method, second, Validator([second])))
    sums = trainer._optimizer.state()["sums.entity"]
    assert torch.equal(sums[: len(kept)], kept)
    assert len(sums) == second.num_entities > len(kept)
    assert not sums[len(kept) :].any()
    run(trainer)
    assert (method.kept["sums.entity"][: len(kept)] >= kept).all()
    assert method.kept["sums.entity"].any(dim=1).all()


def test_where_nothing_is_learned_new_rows_are_kept_at_zero() -> None:
    class Idle(Carrying):
        def facts(self, snapshot: Snapshot) -> Facts:
            return no_facts()

    config = quick(optimizer="adagrad")
    method = Idle(config)
    trainer = trainer_of(config, method=method)
    run(trainer)
    assert method.kept["sums.entity"].shape == trainer.model.tables.entity.shape
    assert not method.kept["sums.entity"].any()


def test_a_method_that_does_not_carry_it_is_not_asked_to_keep_it() -> None:
    class Plain(Method):
        def keep_optimizer(self, state: State) -> None:
            raise AssertionError

    config = quick(max_epochs=1)
    trainer = trainer_of(config, [0.1], Plain(config))
    run(trainer)
    assert not any(name.startswith("best") for name in trainer.state()[0])


def test_the_softmax_learns_without_negatives() -> None:
    config = quick(max_epochs=30, patience=30, learning_rate=0.3, n3=0.01, **SOFTMAX)
    trainer = trainer_of(config, [0.1] * 30)
    assert {batch.corruptions.shape[1] for batch in trainer._batches(trainer._edges)} == {0}
    events = run(trainer)
    assert events[-1].loss < events[0].loss / 2


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_facts_learn_with_negatives_that_they_share(backend: str) -> None:
    sampled = SOFTMAX | {"loss": "sampled", "backend": backend, "negatives_shared_by": 3}
    config = quick(max_epochs=30, patience=30, learning_rate=0.3, **sampled)
    trainer = trainer_of(config, [0.1] * 30)
    assert {batch.shared_by for batch in trainer._batches(trainer._edges)} == {3}
    events = run(trainer)
    assert events[-1].loss < events[0].loss / 2


@pytest.mark.parametrize(
    ("method", "negatives"),
    [("fine-tune", 0), ("lkge", 0), ("gem", 0), ("dicgrl", 2), ("mean", 2), ("lan", 2)],
)
def test_methods_that_compare_with_negatives_get_them(method: str, negatives: int) -> None:
    given = {"negatives": negatives} if negatives else {}
    if method == "dicgrl":
        given["components"] = 4
    config = quick(method, max_epochs=2, **SOFTMAX, **given)
    made, model, snapshot = (
        method_named(method)(config),
        Model(config),
        made_graph().snapshots[0],
    )
    trainer = begun(Trainer(model, made, snapshot, Validator([snapshot])))
    assert {batch.corruptions.shape[1] for batch in trainer._batches(trainer._edges)} == {negatives}
    assert all(math.isfinite(event.loss) for event in run(trainer))


def test_the_same_seed_draws_the_same_share_of_candidates() -> None:
    """A share of the candidates learns otherwise than all; the same seed draws the same."""
    softmax = {"loss": "softmax", "score": "complex", "max_epochs": 2, "all_candidates_below": 0}
    learned = []
    for share in (1.0, 0.5, 0.5, 0.3):
        trainer = trainer_of(quick(**softmax, candidate_fraction=share), [0.1, 0.2])
        trainer.train()
        learned.append(bytes_of(trainer.model.tables))
    assert learned[1] == learned[2]
    assert len(set(learned)) == 3


def test_validation_facts_may_be_ranked_among_a_sample() -> None:
    """The sample is the same in each epoch, and changes nothing but the validation MRR."""
    found = []
    for candidates in (0, 5, 5, 10**6):
        config = quick(max_epochs=3, patience=9, validation_candidates=candidates)
        model, snapshot = Model(config), made_graph().snapshots[0]
        trainer = begun(Trainer(model, Method(config), snapshot, Validator([snapshot])))
        events = run(trainer)
        found.append([event.valid_mrr for event in events])
        assert len(events) == 3
    assert found[1] == found[2] != found[0] == found[3]
    assert all(few > all_ for few, all_ in zip(found[1], found[0], strict=True))


def test_a_method_that_answers_otherwise_is_validated_among_all_entities() -> None:
    class Other(Method):
        def inference_parameters(self, model: Model) -> Parameters:
            return model.tables

    assert not Other(quick()).ranks_any_rows
    assert Method(quick()).ranks_any_rows
