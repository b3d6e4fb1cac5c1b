"""Consolidation in a process of its own, which goes on when the command that began it has ended.

If it is stopped, the next add does its work; see `LivingGraph.consolidate`.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

NICENESS = 10


def start_consolidation(folder: Path) -> None:
    """Start the process; it is in a session of its own and prints nothing."""
    nowhere = subprocess.DEVNULL
    subprocess.Popen(
        [sys.executable, "-m", "lkge.store.background", str(folder.resolve())],
        stdin=nowhere,
        stdout=nowhere,
        stderr=nowhere,
        cwd="/",
        start_new_session=True,
    )


def main(folder: str) -> int:
    """The process: its exit code is 1 if the graph could not be consolidated."""
    from lkge.errors import LkgeError
    from lkge.store.graph import LivingGraph

    with suppress(OSError):
        os.nice(NICENESS)
    try:
        LivingGraph(folder).consolidate()
    except (LkgeError, OSError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
