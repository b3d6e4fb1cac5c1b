"""Learns in a process of its own, to be killed: `learner.py GRAPH SETTINGS RUN...`

Each run that was begun goes on, the others begin. Every epoch is saved; no figures are drawn.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

from lkge import api
from lkge.reports import page
from lkge.training.loop import Loop


def main(graph: str, changes: str, *runs: str) -> None:
    """Begin or go on, one run after the other."""
    vars(api)["Loop"] = functools.partial(Loop, seconds_between_checkpoints=0)
    vars(page)["write_report"] = lambda results, folder: folder
    growing = api.load(Path(graph))
    for run in runs:
        if Path(run).exists():
            api.resume(run, graph=growing)
        else:
            api.run(growing, out=run, **json.loads(changes))


if __name__ == "__main__":
    main(*sys.argv[1:])
