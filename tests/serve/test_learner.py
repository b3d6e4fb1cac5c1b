from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.serve.helpers import more

from lkge.serve.learner import NICENESS, Learner, LearnerFailed, child_command
from lkge.store import inbox
from lkge.store.reader import open_reader
from lkge.store.versions import Store


def python(code: str) -> Learner:
    return Learner([sys.executable, "-c", code])


async def all_of(learner: Learner) -> list[Mapping[str, Any]]:
    return [event async for event in learner.events()]


def test_events_are_the_json_objects_among_the_lines() -> None:
    said = 'print(\'{"type": "A"}\'); print("no JSON"); print("[1]"); print(\'{"type": "B"}\')'
    assert asyncio.run(all_of(python(said))) == [{"type": "A"}, {"type": "B"}]


def test_a_learner_that_fails_is_reported_by_its_last_line() -> None:
    code = 'import sys; sys.exit("first\\nerror: the disk is full\\n\\n")'
    with pytest.raises(LearnerFailed, match=r"^error: the disk is full$"):
        asyncio.run(all_of(python(code)))


def test_a_learner_without_output_is_reported_by_its_exit_code() -> None:
    with pytest.raises(LearnerFailed, match="code 3"):
        asyncio.run(all_of(python("raise SystemExit(3)")))


def test_a_learner_has_low_priority_one_thread_and_no_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_a_learner_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_child_learns_the_waiting_batches_and_prints_its_events(kg: Path) -> None:
    inbox.accept(Store(kg), more(0), source="test")
    events = asyncio.run(all_of(Learner(child_command(kg))))
    published = [event for event in events if event["type"] == "VersionPublished"]
    assert [(event["version"], event["batch"]) for event in published] == [(2, 2)]
    assert "EpochFinished" in {event["type"] for event in events}
    assert open_reader(kg).version == 2


def test_an_error_of_the_child_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LearnerFailed, match=r"^error: .*lkge init"):
        asyncio.run(all_of(Learner(child_command(tmp_path))))


def test_a_child_inherits_no_sockets_and_has_its_own_process_group() -> None:
    code = (
        "import json, os; links = [f'/proc/self/fd/{n}' for n in os.listdir('/proc/self/fd')];"
        "found = [os.readlink(link) for link in links if os.path.exists(link)];"
        "print(json.dumps({'sockets': [each for each in found if each.startswith('socket:')],"
        " 'group': os.getpgid(0) == os.getpid()}))"
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        os.set_inheritable(listening.fileno(), True)
        [event] = asyncio.run(all_of(python(code)))
    assert event == {"sockets": [], "group": True}
