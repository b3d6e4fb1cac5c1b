"""Real processes, killed at random moments; readers beside a writer.

With `LKGE_MANY_KILLS=1` in the environment there are a thousand kills.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lkge

ROUNDS = 1000 if os.environ.get("LKGE_MANY_KILLS") == "1" else 50


def killing(*words: object) -> str:
    """What the killing process says; it must end well."""
    return ended_well("tests.store.killing", *words)


def ended_well(module: str, *words: object) -> str:
    """What a module says that runs as a process with one thread; it must end well."""
    paths = os.pathsep.join(str(path) for path in (Path(lkge.__file__).parents[1], _tests()))
    one = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(
        command, env={**os.environ, **one, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _tests() -> Path:
    return Path(__file__).parents[2]


def test_nothing_is_lost_whenever_a_process_is_killed(tmp_path: Path) -> None:
    told = killing(ROUNDS, 1, tmp_path)
    assert "b''" in told, "no process was killed before it had accepted"
    assert "b'A'" in told, "no process was killed while it learned"


def test_readers_see_whole_versions_only(tmp_path: Path) -> None:
    killing("readers", tmp_path)
