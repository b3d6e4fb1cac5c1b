"""A process that makes others, which learn, and kills them: `killing.py FOLDER KILLS FARTHEST
EPOCHS METHOD...`.

It has one thread and learns nothing itself, so that it can fork: a child is a real process that
begins at once. What it finds wrong ends it with an AssertionError. Every epoch is saved; no figures
are drawn.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.store.killing import forked
from tests.training.made import made_graph, quick

from lkge import api
from lkge.config import RunConfig
from lkge.reports import page
from lkge.training.loop import Loop

GRAPH = made_graph()


def learn(config: RunConfig, *runs: Path) -> None:
    """Begin or go on, one run after the other."""
    for run in runs:
        if run.exists():
            api.resume(run, graph=GRAPH)
        else:
            api.run(GRAPH, out=run, config=config)


def kill(run: Path, events: int, delay: float, work: Callable[[], None]) -> None:
    """Start a process, and kill it some time after its run has so many events in all."""
    child = forked(work)
    deadline = time.monotonic() + 60
    while not (run.exists() and events_in(run) >= events):
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended by itself"
        assert time.monotonic() < deadline, "nothing happened within a minute"
        time.sleep(0.001)
    time.sleep(delay)
    assert os.waitpid(child, os.WNOHANG) == (0, 0), "it ended before it could be killed"
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def events_in(run: Path) -> int:
    log = run / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def found(run: Path) -> dict[str, Any]:
    """The results of a run without its times."""
    tree: dict[str, Any] = json.loads((run / "results.json").read_text(encoding="utf-8"))
    for record in tree["snapshots"]:
        del record["seconds"], record["validation_seconds"]
    return tree


def kill_many(folder: Path, kills: int, farthest: int, epochs: int, method: str) -> None:
    """Kill a run at random moments; in the end it is as one that was not killed."""
    run, whole = folder / f"{method}-run", folder / f"{method}-whole"
    config = quick(method, max_epochs=epochs, patience=epochs)
    chance = random.Random(method)

    work = functools.partial(learn, config, run)
    kill(run, 0, 0.0, work)
    for _ in range(kills):
        kill(run, events_in(run) + chance.randint(2, farthest), chance.uniform(0, 0.02), work)
    assert not (run / "results.json").exists()

    _, status = os.waitpid(forked(functools.partial(learn, config, run, whole)), 0)
    assert status == 0
    for name in ("model.safetensors", "model.json"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    assert found(run) == found(whole)
    assert sorted(path.name for path in run.iterdir()) == sorted(p.name for p in whole.iterdir())
    log = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    assert sum(event["type"] == "RunStarted" for event in log) >= 2


if __name__ == "__main__":
    vars(api)["Loop"] = functools.partial(Loop, seconds_between_checkpoints=0)
    vars(page)["write_report"] = lambda results, folder: folder
    place, *numbers = sys.argv[1:5]
    for name in sys.argv[5:]:
        kill_many(Path(place), *map(int, numbers), name)
