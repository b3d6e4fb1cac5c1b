from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import pytest

from lkge.serve.learner import NICENESS, Learner, LearnerFailed


def python(code: str) -> Learner:
    return Learner([sys.executable, "-c", code])


async def all_of(learner: Learner) -> list[Mapping[str, Any]]:
    return [event async for event in learner.events()]


def test_events_are_the_json_objects_among_the_lines() -> None:
    said = 'print(\'{"type": "A"}\'); print("no JSON"); print("[1]"); print(\'{"type": "B"}\')'
    assert asyncio.run(all_of(python(said))) == [{"type": "A"}, {"type": "B"}]


def test_a_learner_that_fails_is_quoted_by_its_last_line() -> None:
    code = 'import sys; sys.exit("first\\nerror: the disk is full\\n\\n")'
    with pytest.raises(LearnerFailed, match=r"^error: the disk is full$"):
        asyncio.run(all_of(python(code)))


def test_a_learner_that_says_nothing_is_quoted_by_its_code() -> None:
    with pytest.raises(LearnerFailed, match="code 3"):
        asyncio.run(all_of(python("raise SystemExit(3)")))


def test_a_learner_is_modest_and_knows_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LKGE_TOKEN", "secret")
    code = (
        "import json, os, time; time.sleep(0.2); print(json.dumps({'nice': os.nice(0),"
        " 'token': os.environ.get('LKGE_TOKEN'), 'threads': os.environ['NUMBA_NUM_THREADS']}))"
    )
    [event] = asyncio.run(all_of(python(code)))
    assert event == {"nice": min(19, os.nice(0) + NICENESS), "token": None, "threads": "1"}


def test_a_learner_can_be_stopped_at_any_time() -> None:
    async def stopped() -> float:
        learner = python("import time; print('{}', flush=True); time.sleep(60)")
        events = learner.events()
        await anext(events)
        started = time.monotonic()
        await learner.stop()
        with pytest.raises(LearnerFailed):
            await anext(events)
        await learner.stop()
        return time.monotonic() - started

    assert asyncio.run(stopped()) < 10


def test_a_learner_that_does_not_heed_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lkge.serve.learner.SECONDS_TO_STOP", 0.2)
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('{}', flush=True); time.sleep(60)"
    )

    async def stopped() -> None:
        learner = python(code)
        await anext(learner.events())
        await learner.stop()

    started = time.monotonic()
    asyncio.run(stopped())
    assert time.monotonic() - started < 10
