"""Learns in a process of its own, to be killed: `learner.py GRAPH RUN SETTINGS`, twice or more.

A run that was begun goes on. Every epoch is saved; no figures are drawn.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from lkge import api
from lkge.learning.loop import Loop
from lkge.reports import page


def main(graph: Path, run: Path, changes: str) -> None:
    """Begin or go on."""
    api.Loop = functools.partial(Loop, seconds_between_checkpoints=0)  # type: ignore[misc,assignment]
    page.write_report = lambda results, folder: folder  # type: ignore[assignment]
    growing = api.load(graph)
    if run.exists():
        api.resume(run, graph=growing)
    else:
        api.run(growing, out=run, **json.loads(changes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
