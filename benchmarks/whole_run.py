"""What a user waits for and pays: start-up time, a whole run, and the memory of one."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.comparison import once


def start_up() -> list[str]:
    """`lkge --help`, the second time."""

    def ask_for_help() -> None:
        subprocess.run([sys.executable, "-m", "lkge", "--help"], check=True, capture_output=True)

    ask_for_help()
    return [f"`lkge --help` answers in {min(once(ask_for_help) for _ in range(3)):.2f} s"]


def five_snapshots(data: Path) -> list[str]:
    """All of ENTITY with the defaults, on all cores."""
    with tempfile.TemporaryDirectory() as folder:
        wall = once(lambda: _run(data, f"{folder}/run"))
        snapshots = json.loads(Path(folder, "run", "results.json").read_text())["snapshots"]
    learning = sum(snapshot["seconds"] for snapshot in snapshots)
    return [
        f"evergreen learns the five snapshots of ENTITY in {learning:.0f} s, validation included; "
        f"{wall:.0f} s with the start, all tests in both protocols, and the files"
    ]


def peak_memory(data: Path, epochs: int = 3) -> list[str]:
    """All five snapshots of ENTITY with LKGE; more epochs take more time, not more memory."""
    with tempfile.TemporaryDirectory() as folder:
        _run(data, f"{folder}/run", "--method", "lkge", "--max-epochs", str(epochs))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return [f"peak memory of an LKGE run over all of ENTITY: {peak:.2f} GiB ({epochs} epochs each)"]


def _run(data: Path, out: str, *options: str) -> None:
    command = [sys.executable, "-m", "lkge", "run", "--dataset", "ENTITY", *options]
    command += ["--data", str(data), "--out", out, "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
