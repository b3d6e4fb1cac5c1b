"""Real processes, killed at random moments or stopped by Ctrl-C, and taken up again.

With `LKGE_MANY_KILLS=1` in the environment every method is run, and killed many times more. That
each goes on bit for bit from a checkpoint is in test_resume.py.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.store.test_kill import ended_well
from tests.training.killing import events_in
from tests.training.made import made_graph
from typer.testing import CliRunner

import lkge
from lkge import api
from lkge.cli import app
from lkge.data.folders import write_growing_graph
from lkge.methods import METHODS

MANY = os.environ.get("LKGE_MANY_KILLS") == "1"
KILLS, FARTHEST, EPOCHS = (30, 8, 100) if MANY else (2, 20, 20)
"""Kills of each run after the first, how many events a run gets at most before each, and epochs of
a snapshot."""
KILLED = sorted(METHODS) if MANY else ["lkge", "gem"]
"""Parameters and counts, a memory."""


def test_a_run_killed_at_any_moment_ends_like_one_that_was_not(tmp_path: Path) -> None:
    ended_well("tests.training.killing", tmp_path, KILLS, FARTHEST, EPOCHS, *KILLED)


@pytest.mark.usefixtures("one_thread")
def test_ctrl_c_prints_a_command_that_goes_on(tmp_path: Path) -> None:
    graph, run = tmp_path / "graph", tmp_path / "my run"
    write_growing_graph(made_graph(), graph)
    changes: dict[str, Any] = {"method": "lkge", "max_epochs": 150, "patience": 150, "dim": 8}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in changes.items()]
    words = ["-m", "lkge", "run", "--dataset", graph, "--out", run, "--quiet", *flags]
    one = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, *map(str, words)],
        env={**os.environ, **one, "PYTHONPATH": str(Path(lkge.__file__).parents[1])},
        text=True,
        stderr=subprocess.PIPE,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while events_in(run) <= 3:
                assert process.poll() is None, "it ended by itself"
                assert time.monotonic() < deadline, "nothing happened within a minute"
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in told
    assert not (run / "results.json").exists()

    command = told.split("To go on: ")[1].splitlines()[0]
    first, *rest = shlex.split(command)
    assert first == "lkge"
    done = CliRunner().invoke(app, rest)
    assert done.exit_code == 0
    assert "lkge" in done.stdout
    assert not (run / "checkpoint").exists()

    whole = api.run(api.load(graph), **changes)
    resumed = api.opened(run)
    assert resumed.predictor.entity.equal(whole.predictor.entity)
    assert resumed.results.protocols == whole.results.protocols
