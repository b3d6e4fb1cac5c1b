"""What a user waits for and pays: start-up time, and the memory of a whole run."""

from __future__ import annotations

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


def peak_memory(data: Path, epochs: int = 3) -> list[str]:
    """All five snapshots of ENTITY with LKGE; more epochs take more time, not more memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "lkge", "run", "--dataset", "ENTITY", "--method", "lkge"]
        command += ["--max-epochs", str(epochs), "--data", str(data), "--out", f"{folder}/run"]
        subprocess.run([*command, "--quiet"], check=True, capture_output=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return [f"peak memory of an LKGE run over all of ENTITY: {peak:.2f} GiB ({epochs} epochs each)"]
