"""Progress of a study: one line for each event, and on a terminal a live table below them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lkge.reports import text

if TYPE_CHECKING:
    from lkge.studies.runner import Failure, Job, Running

TAIL = 4096
"""Bytes at the end of a log that hold its last line."""


class Observer:
    """Prints one line when a run starts, finishes or fails; keeps the running jobs for `table`."""

    def __init__(self, console: Console, total: int, done: int) -> None:
        self._console, self._total, self._done = console, total, done
        self._running: Sequence[Running] = ()
        self._since = time.monotonic()

    def started(self, job: Job) -> None:
        """A process was started."""
        self._print(f"{'resumed' if job.is_begun else 'started'}  {job.name}")

    def finished(self, job: Job, seconds: float) -> None:
        """A run is finished, and its results are stored."""
        self._done += 1
        self._print(f"finished {job.name} in {text.duration(seconds)}: {self._count()}")

    def failed(self, failure: Failure) -> None:
        """A run failed."""
        self._print(f"FAILED   {failure.job.name}: {failure.reason}")

    def update(self, running: Sequence[Running]) -> None:
        """Called several times a second with the jobs that run."""
        self._running = tuple(running)

    def table(self) -> Group:
        """The share of runs that are done, and the running jobs."""
        now = time.monotonic()
        head, rows = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
        bar = ProgressBar(self._total, self._done, width=30)
        head.add_row(bar, self._count(), f"{text.duration(now - self._since)} so far")
        for one in self._running:
            spent = text.duration(now - one.since)
            rows.add_row(Text(one.job.name, "bold"), spent, Text(one.job.status()))
        return Group(head, rows)

    def _count(self) -> str:
        return f"{self._done} of {self._total} done"

    def _print(self, line: str) -> None:
        self._console.print(Text(text.printable(line)), soft_wrap=True)


@contextmanager
def observing(console: Console, total: int, done: int) -> Iterator[Observer]:
    """A live table on a terminal, else plain lines."""
    observer = Observer(console, total, done)
    live = Live(console=console, get_renderable=observer.table, refresh_per_second=2)
    with live if console.is_terminal else nullcontext():
        yield observer


def status_of(log: Path) -> str:
    """Snapshot and epoch of a run, from the last line of its log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL))
            lines = file.read().splitlines()
        event: dict[str, Any] = json.loads(lines[-1])
        snapshot = f"snapshot {event['snapshot'] + 1}"
    except (OSError, IndexError, KeyError, TypeError, ValueError):
        return "starting"
    if event["type"] == "EpochFinished":
        mrr = event["valid_mrr"]
        known = "" if mrr is None else f", validation MRR {text.number(mrr)}"
        return f"{snapshot}, epoch {event['epoch']}{known}"
    return f"{snapshot}, ranking" if event["type"] == "Evaluating" else snapshot
