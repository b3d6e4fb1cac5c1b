"""Real processes, killed at random moments or stopped by Ctrl-C, and taken up again.

With `LKGE_MANY_KILLS=1` in the environment every method is run, and killed many times more. That
each goes on bit for bit from a checkpoint is in test_resume.py.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.training.made import made_graph, quick

import lkge
from lkge import api
from lkge.data.folders import write_growing_graph
from lkge.methods import METHODS

Words = Sequence[str | Path]

LEARNER = Path(__file__).with_name("learner.py")
MANY = os.environ.get("LKGE_MANY_KILLS") == "1"
KILLS, FARTHEST = (30, 8) if MANY else (2, 20)
"""Kills of each run after the first, and how many events a run gets at most before each."""
KILLED = sorted(METHODS) if MANY else ["lkge", "gem"]
"""Parameters and counts, a memory."""
SNAPSHOTS, EPOCHS = 3, 100 if MANY else 20


@contextmanager
def started(*words: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Python in another process, with one thread; it does not outlive the block.

    It heeds SIGINT even where the tests run in the background and ignore it.
    """
    source = str(Path(lkge.__file__).parents[1])
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = source
    command = [sys.executable, *map(str, words)]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, env=environment, text=True, preexec_fn=heed, **options
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert process.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline, "nothing happened within a minute"
        time.sleep(0.001)


def events_in(run: Path) -> int:
    log = run / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def kill(run: Path, events: int, delay: float, words: Words) -> None:
    """Start a process, and kill it some time after its run has so many events in all."""
    with started(*words) as process:
        wait_until(lambda: run.exists() and events_in(run) >= events, process)
        time.sleep(delay)
        assert process.poll() is None, "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL


def found(run: Path) -> dict[str, Any]:
    """The results of a run without its times."""
    tree: dict[str, Any] = json.loads((run / "results.json").read_text(encoding="utf-8"))
    for record in tree["snapshots"]:
        del record["seconds"], record["validation_seconds"]
    return tree


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    folder = tmp_path / "graph"
    write_growing_graph(made_graph(SNAPSHOTS), folder)
    return folder


@pytest.mark.parametrize("method", KILLED)
def test_a_run_killed_at_any_moment_ends_like_one_that_was_not(
    method: str, graph: Path, tmp_path: Path
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    config = quick(method, max_epochs=EPOCHS, patience=EPOCHS).flat()
    words: Words = [LEARNER, graph, json.dumps(config)]
    chance = random.Random(method)

    kill(run, 0, 0.0, [*words, run])
    for _ in range(KILLS):
        events = events_in(run) + chance.randint(2, FARTHEST)
        kill(run, events, chance.uniform(0, 0.02), [*words, run])
    assert not (run / "results.json").exists()

    with started(*words, run, whole) as process:
        assert process.wait(timeout=120) == 0
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert (run / "model.json").read_bytes() == (whole / "model.json").read_bytes()
    assert found(run) == found(whole)
    assert sorted(path.name for path in run.iterdir()) == sorted(p.name for p in whole.iterdir())
    log = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    assert sum(event["type"] == "RunStarted" for event in log) >= 2


@pytest.mark.usefixtures("one_thread")
def test_ctrl_c_prints_a_command_that_goes_on(graph: Path, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    changes: dict[str, Any] = {"method": "lkge", "max_epochs": 150, "patience": 150, "dim": 8}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]
    words: Words = ["-m", "lkge", "run", "--dataset", graph, "--out", run, "--quiet", *flags]
    with started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: events_in(run) > 3, process)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert not (run / "results.json").exists()

    command = told.split("To go on: ")[1].splitlines()[0]
    first, *rest = shlex.split(command)
    assert first == "lkge"
    with started("-m", "lkge", *rest, stdout=subprocess.PIPE) as process:
        table, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "lkge" in table
    assert not (run / "checkpoint").exists()

    whole = api.run(api.load(graph), **changes)
    resumed = api.opened(run)
    assert resumed.predictor.entity.equal(whole.predictor.entity)
    assert resumed.results.protocols == whole.results.protocols
