"""Kernels give the same bits when they are compiled and when they come from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lkge

SCRIPT = """
import hashlib
from lkge.learning.loop import Loop
from lkge.testing.graphs import SETTINGS, growing_graph

for method in ("lkge", "ewc"):
    settings = SETTINGS.with_changes({"dim": 27, "method": method})
    learned = Loop(growing_graph(), settings).run()
    for table in learned.tables:
        print(hashlib.sha256(table.numpy().tobytes()).hexdigest())
    print(learned.results.protocols)
"""


def learned_by_a_process(cache: Path) -> str:
    one_thread = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    place = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(lkge.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **one_thread, **place},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_first_run_has_the_bits_of_the_next(tmp_path: Path) -> None:
    cold = learned_by_a_process(tmp_path)
    assert any(tmp_path.rglob("*.nbi")), "nothing was cached"
    assert learned_by_a_process(tmp_path) == cold
