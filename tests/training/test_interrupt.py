"""Ctrl-C in one process: raised between steps, at the end of the block, or at the second time."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from lkge.training.interrupt import check, stops_between_steps


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def _heeds_ctrl_c() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def steps(*actions: Callable[[], None]) -> list[Callable[[], None]]:
    """What was done of `actions`, with a Ctrl-C raised somewhere."""
    done = []

    def train() -> None:
        with stops_between_steps():
            for action in actions:
                action()
                done.append(action)

    with pytest.raises(KeyboardInterrupt):
        train()
    return done


def step() -> None:
    pass


def test_the_first_is_raised_by_check() -> None:
    assert steps(press_ctrl_c, step, check, step) == [press_ctrl_c, step]


def test_it_is_raised_at_the_end_of_the_block() -> None:
    assert steps(press_ctrl_c, step) == [press_ctrl_c, step]


def test_the_second_is_raised_at_once() -> None:
    assert steps(press_ctrl_c, step, press_ctrl_c, step) == [press_ctrl_c, step]


def test_after_the_block_nothing_is_pending_and_ctrl_c_is_as_before() -> None:
    steps(press_ctrl_c)
    check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stops_between_steps():
        press_ctrl_c()
        check()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_another_thread_can_train() -> None:
    entered = []

    def train() -> None:
        with stops_between_steps():
            entered.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert entered == [signal.default_int_handler]
