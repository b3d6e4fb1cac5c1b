"""Several runs at a time with one thread each, against one after another with all threads."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison import Comparison, once

METHODS = ("lkge", "fine-tune")


def side_by_side(data: Path, epochs: int = 3) -> list[Comparison]:
    """Two runs over all of ENTITY, as `lkge bench --jobs 2` does them, and in turn."""
    cores = os.cpu_count() or 1
    if cores < len(METHODS):
        return []
    with tempfile.TemporaryDirectory() as folder:

        def command(method: str, name: str) -> list[str]:
            flags = ["--dataset", "ENTITY", "--method", method, "--max-epochs", str(epochs)]
            place = ["--data", str(data), "--out", str(Path(folder) / f"{method}-{name}")]
            return [sys.executable, "-m", "lkge", "run", "--quiet", *flags, *place]

        jobs = [command(method, "together") for method in METHODS]
        turns = [command(method, "in-turn") for method in METHODS]
        together = once(lambda: _run(jobs, threads=1, together=True))
        in_turn = once(lambda: _run(turns, threads=cores, together=False))
    name = f"{len(METHODS)} whole runs, {epochs} epochs a snapshot, as jobs of one thread"
    return [Comparison(name, together, in_turn, f"in turn, {cores} threads", 1.0)]


def _run(commands: Sequence[list[str]], threads: int, together: bool) -> None:
    limits = {"NUMBA_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    environment = {**os.environ, **limits}
    started = []
    for words in commands:
        process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
        started.append(process)
        if not together:
            process.wait()
    if any(process.wait() for process in started):
        raise RuntimeError("a run failed; the times mean nothing")
