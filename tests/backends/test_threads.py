"""The tests that need two threads, in a process that has them."""

import os
import subprocess
import sys
from pathlib import Path

FILES = [Path(__file__).with_name(name) for name in ("test_margin.py", "test_reconstruction.py")]


def test_kernels_give_the_same_bytes_with_one_thread_and_with_two() -> None:
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "number_of_threads", *map(str, FILES)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
