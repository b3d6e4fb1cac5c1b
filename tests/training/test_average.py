"""The mean of tables after each step, and a training that ends with it."""

from __future__ import annotations

import math

import pytest
import torch
from tests.training.made import bytes_of, made_graph, quick
from torch import Tensor

from lkge.data.snapshots import Facts, Snapshot
from lkge.evaluation.ranking import Validator
from lkge.methods.base import Method
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import TablePredictor
from lkge.training.optimizers import EVERY_STEP_BELOW, Average, averaging_interval
from lkge.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 6


def weights_of(steps: int) -> list[float]:
    """What each step counts in the mean of them all."""
    weights: list[float] = []
    for t in range(1, steps + 1):
        moves = 10 / (t + 9)
        weights = [weight * (1 - moves) for weight in weights] + [moves]
    return weights


class Watching(Method):
    """Remembers the entities after each step."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.seen: list[Tensor] = []

    def after_step(self, model: Model, gradient: Gradient) -> None:
        self.seen.append(model.tables.entity.clone())

    def mean(self) -> Tensor:
        weights = weights_of(len(self.seen))
        return sum(
            (w * table.double() for w, table in zip(weights, self.seen, strict=True)),
            start=torch.zeros_like(self.seen[0], dtype=torch.float64),
        ).float()


class Shown(Validator):
    """Remembers the entities that answer, and finds each epoch better than those before."""

    def __init__(self, before: int = 0) -> None:
        super().__init__([])
        self.before = before
        self.entities: list[Tensor] = []

    def mrr(self, predictor: TablePredictor, facts: Facts, snapshot: Snapshot) -> float:
        self.entities.append(predictor.entity.clone())
        return float(self.before + len(self.entities))


def trainer_of(epochs: int, before: int = 0) -> tuple[Trainer, Watching, Shown]:
    config = quick(max_epochs=epochs, patience=9, parameter_averaging=True, score="complex")
    model, method, shown = Model(config), Watching(config), Shown(before)
    trainer = Trainer(model, method, made_graph().snapshots[0], shown)
    trainer.prepare()
    trainer.begin()
    return trainer, method, shown


def test_it_is_the_weighted_mean_of_all_steps() -> None:
    tables = [
        Parameters(
            torch.randn(5, 4, generator=torch.Generator().manual_seed(t)),
            torch.full((2, 4), float(t)),
        )
        for t in range(1, STEPS + 1)
    ]
    mean = Average(Parameters(torch.zeros(5, 4), torch.zeros(2, 4)), decay=9.0)
    for step, made in enumerate(tables, start=1):
        mean.update(made, step)
    weights = weights_of(STEPS)
    assert math.fsum(weights) == pytest.approx(1)
    assert weights == sorted(weights)
    expected = sum(w * made.entity for w, made in zip(weights, tables, strict=True))
    torch.testing.assert_close(mean.tables.entity, expected)
    assert mean.tables.relation[0, 0].item() == pytest.approx(
        sum(w * t for t, w in enumerate(weights, start=1))
    )


def test_what_does_not_move_stays_bit_for_bit() -> None:
    rows = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    mean = Average(Parameters(rows, rows[:2]), decay=9.0)
    for step in range(1, STEPS):
        mean.update(Parameters(rows, rows[:2]), step)
    assert mean.tables.entity.equal(rows)


def test_the_mean_is_validated_and_restored_while_the_last_step_learns_on() -> None:
    trainer, method, shown = trainer_of(epochs=3)
    trainer.train()
    assert len(method.seen) == trainer.progress.steps > 3
    torch.testing.assert_close(shown.entities[-1], method.mean())
    torch.testing.assert_close(trainer.model.tables.entity, method.mean())
    assert not torch.equal(method.seen[-1], trainer.model.tables.entity)
    alone, unaveraged, _ = trainer_of(epochs=3)
    alone._average = None
    alone.train()
    assert torch.equal(unaveraged.seen[-1], method.seen[-1])


def test_without_averaging_the_last_step_answers() -> None:
    config = quick(max_epochs=2, patience=9)
    model, method, shown = Model(config), Watching(config), Shown()
    Trainer(model, method, made_graph().snapshots[0], shown).run()
    assert torch.equal(model.tables.entity, method.seen[-1])


def test_an_interrupted_training_has_the_same_mean() -> None:
    whole, _, _ = trainer_of(epochs=4)
    whole.train()
    first, _, _ = trainer_of(epochs=2)
    first._epoch()
    first._epoch()
    again, _, _ = trainer_of(epochs=4, before=2)
    again.load_state(*first.state())
    again.train()
    assert bytes_of(again.model.tables) == bytes_of(whole.model.tables)


def test_of_an_interval_it_takes_the_last_step() -> None:
    rows = [torch.full((3, 2), float(step)) for step in range(1, 8)]
    some, every = (
        Average(Parameters(torch.zeros(3, 2), torch.zeros(1, 2)), 9.0, k) for k in (3, 1)
    )
    for step, made in enumerate(rows, start=1):
        some.update(Parameters(made, made[:1]), step)
    for step, made in enumerate((rows[2], rows[5]), start=1):
        every.update(Parameters(made, made[:1]), step)
    assert torch.equal(some.tables.entity, every.tables.entity)


@pytest.mark.parametrize(("steps", "interval"), [(0, 1), (40, 1), (3200, 100)])
def test_in_a_large_table_few_steps_of_an_epoch_are_averaged(steps: int, interval: int) -> None:
    assert averaging_interval(EVERY_STEP_BELOW, steps) == 1
    assert averaging_interval(EVERY_STEP_BELOW + 1, steps) == interval
