"""A run that crashes, wherever it crashes, ends as one that did not: to the bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.made import bytes_of, made_graph, quick, without_seconds
from torch import Tensor

from lkge.config import METHOD_CONFIGS, RunConfig
from lkge.methods import METHODS
from lkge.methods.base import Method, State
from lkge.training.checkpoint import Checkpoints
from lkge.training.events import EpochFinished, Event, Listener, RunStarted, ignore
from lkge.training.loop import Learned, Loop

EVERY_METHOD = pytest.mark.parametrize("method", sorted(METHODS))
NEVER = 1e9
GRAPH = made_graph(snapshots=2)

pytestmark = pytest.mark.usefixtures("one_thread", "patient_disk")


class Crash(BaseException):
    """Nothing in the package can catch this by accident."""


def learn(
    folder: Path | None, config: RunConfig, listener: Listener = ignore, interval: float = 0.0
) -> Learned:
    checkpoints = None if folder is None else Checkpoints(folder)
    return Loop(GRAPH, config, checkpoints, listener, interval).run()


def outcome(learned: Learned) -> tuple[bytes, dict[str, Any]]:
    return bytes_of(learned.tables), without_seconds(learned.results)


def crashing(when: Callable[[int, Event], bool]) -> Listener:
    """A listener that crashes at the first event for which `when(number, event)` holds."""
    count = 0

    def listen(event: Event) -> None:
        nonlocal count
        count += 1
        if when(count, event):
            raise Crash

    return listen


def crashed(*args: Any, **options: Any) -> bool:
    try:
        learn(*args, **options)
    except Crash:
        return True
    return False


@pytest.mark.parametrize(
    ("method", "interval"), [*((method, 0.0) for method in sorted(METHODS)), ("lkge", NEVER)]
)
def test_a_crash_at_any_event(method: str, interval: float, tmp_path: Path) -> None:
    config, events = quick(method, max_epochs=3), list[Event]()
    whole = outcome(learn(None, config, events.append))
    assert len(events) > 8
    for number in range(1, len(events) + 1):
        folder = tmp_path / str(number)
        stop = crashing(lambda count, _, number=number: count == number)  # type: ignore[misc]
        assert crashed(folder, config, stop, interval)
        assert outcome(learn(folder, config, interval=interval)) == whole


BEYOND: dict[str, Any] = {
    "score": "complex",
    "loss": "softmax",
    "optimizer": "adagrad",
    "n3": 0.05,
    "relation_prediction_weight": 0.1,
}


@pytest.mark.parametrize(
    "method", ["evergreen", "fine-tune", "ewc", "gem", "lkge", "mean", "re-train"]
)
def test_a_crash_with_another_base(method: str, tmp_path: Path) -> None:
    """Matrix products and Adagrad go on to the bit, too."""
    config, events = quick(method, max_epochs=3, **BEYOND), list[Event]()
    whole = outcome(learn(None, config, events.append))
    for number in range(2, len(events) + 1, 2):
        folder = tmp_path / str(number)
        stop = crashing(lambda count, _, number=number: count == number)  # type: ignore[misc]
        assert crashed(folder, config, stop)
        assert outcome(learn(folder, config)) == whole


def test_a_crash_of_a_method_that_carries_its_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Carrying(Method):
        name = "carrying"
        kept: State = {}  # noqa: RUF012

        def optimizer_state(self) -> State:
            return self.kept

        def keep_optimizer(self, state: State) -> None:
            self.kept = state

        def state(self) -> State:
            return self.kept

        def load_state(self, state: Mapping[str, Tensor]) -> None:
            self.kept = dict(state)

    monkeypatch.setitem(METHODS, "carrying", Carrying)
    monkeypatch.setitem(METHOD_CONFIGS, "carrying", Carrying.Config)
    config, events = quick("carrying", max_epochs=4, **BEYOND), list[Event]()
    learned = learn(None, config, events.append)
    assert set(learned.method.state()) == {"sums.entity", "sums.relation"}
    begun_anew = learn(None, quick("fine-tune", max_epochs=4, **BEYOND))
    assert bytes_of(learned.tables) != bytes_of(begun_anew.tables)
    for number in range(1, len(events) + 1):
        folder = tmp_path / str(number)
        stop = crashing(lambda count, _, number=number: count == number)  # type: ignore[misc]
        assert crashed(folder, config, stop)
        again = learn(folder, config)
        assert outcome(again) == outcome(learned)
        for name, tensor in learned.method.state().items():
            assert torch.equal(again.method.state()[name], tensor)


@EVERY_METHOD
def test_one_crash_after_the_other(method: str, tmp_path: Path) -> None:
    """Each attempt gets one epoch further."""
    config = quick(method, max_epochs=5, patience=5)
    whole = outcome(learn(None, config))
    attempts = 0
    while crashed(tmp_path, config, crashing(_second_epoch_here())):
        attempts += 1
        assert attempts < 20
    assert attempts == 5 * trained_snapshots(method) - 1
    assert outcome(learn(tmp_path, config)) == whole


def trained_snapshots(method: str) -> int:
    """In how many snapshots there are epochs: inductive methods train in the first alone."""
    return 1 if method in ("mean", "lan") else len(GRAPH)


def _second_epoch_here() -> Callable[[int, Event], bool]:
    epochs = 0

    def when(_: int, event: Event) -> bool:
        nonlocal epochs
        epochs += isinstance(event, EpochFinished)
        return epochs == 2

    return when


@contextmanager
def crash_at_call(number: int, name: str, *, done: bool) -> Iterator[None]:
    """The given call of `os.name` crashes, before or after it is `done`."""
    function, count = getattr(os, name), 0

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        if count == number and not done:
            raise Crash
        value = function(*args)
        if count == number:
            raise Crash
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, counted)
        yield


@pytest.mark.parametrize(
    ("method", "done"),
    [("evergreen", False), ("gem", False), ("lkge", False), ("lkge", True), ("mean", False)],
)
def test_a_crash_at_any_file_that_is_put_in_place(method: str, done: bool, tmp_path: Path) -> None:
    """Of methods that carry several states, facts and counts, and of one that trains once."""
    config = quick(method, max_epochs=3, patience=3)
    whole = outcome(learn(None, config))
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        with crash_at_call(number, "replace", done=done):
            if not crashed(folder, config):
                break
        assert outcome(learn(folder, config)) == whole
    saves = 1 + len(GRAPH) + trained_snapshots(method) * config.training.max_epochs
    assert number - 1 == 2 * saves


def test_a_crash_at_any_wait_for_the_disk(tmp_path: Path) -> None:
    config = quick("lkge", max_epochs=2, patience=2)
    whole = outcome(learn(None, config))
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        with crash_at_call(number, "fsync", done=False):
            if not crashed(folder, config):
                break
        assert outcome(learn(folder, config)) == whole
    assert number > 20


def test_it_says_where_it_goes_on(tmp_path: Path) -> None:
    config, events = quick("lkge", max_epochs=5, patience=5), list[Event]()

    def third_of_second(_: int, event: Event) -> bool:
        return isinstance(event, EpochFinished) and (event.snapshot, event.epoch) == (1, 3)

    assert crashed(tmp_path, config, crashing(third_of_second))
    learn(tmp_path, config, events.append)
    assert events[0] == RunStarted("made", "lkge", snapshots=2, snapshot=1, epochs_done=2)
    epochs = [(e.snapshot, e.epoch) for e in events if isinstance(e, EpochFinished)]
    assert epochs == [(1, 3), (1, 4), (1, 5)]


def test_time_of_earlier_attempts_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]

    def tick() -> float:
        clock[0] += 1.0
        return clock[0]

    monkeypatch.setattr("time.perf_counter", tick)
    config = quick(max_epochs=5, patience=5)
    whole = learn(None, config).results
    assert crashed(tmp_path, config, crashing(lambda count, _: count == 5))
    again = learn(tmp_path, config).results
    assert again.seconds == whole.seconds > 10


def test_a_finished_run_has_nothing_left_to_learn(tmp_path: Path) -> None:
    config, events = quick("re-train"), list[Event]()
    whole = outcome(learn(tmp_path, config))
    assert outcome(learn(tmp_path, config, events.append)) == whole
    assert [type(event).__name__ for event in events] == ["RunStarted", "RunFinished"]


def test_without_checkpoints_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    learn(None, quick("lkge"))
    assert not list(tmp_path.iterdir())


def test_checkpoints_are_as_far_apart_as_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, saved = [0.0], list[int]()
    save_epoch = Checkpoints.save_epoch

    def noted(self: Checkpoints, tensors: Any, progress: Any) -> None:
        saved.append(progress["course"]["epochs"])
        save_epoch(self, tensors, progress)

    def second_later(event: Event) -> None:
        clock[0] += isinstance(event, EpochFinished)

    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr(Checkpoints, "save_epoch", noted)
    learn(tmp_path, quick(max_epochs=7, patience=7), second_later, interval=3.0)
    assert saved == [3, 6, 3, 6]
