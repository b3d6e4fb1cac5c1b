"""Listeners that show or keep the events of a run: a live display, plain lines, a JSONL log."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Self

from rich.console import Console, RenderableType
from rich.live import Live

from lkge.learning.board import (
    COMPILING,
    Board,
    clock_time,
    mrr_text,
    render,
    resume_point,
    sizes,
    snapshots,
)
from lkge.learning.progress import (
    Compiling,
    EpochFinished,
    Evaluating,
    Event,
    Listener,
    RunFinished,
    RunStarted,
    SnapshotFinished,
    SnapshotStarted,
    VersionPublished,
)

Clock = Callable[[], float]


class LiveDisplay:
    """One live display on a terminal; a listener while entered as a context manager."""

    def __init__(
        self, console: Console, patience: int | None = None, clock: Clock = time.monotonic
    ):
        self.board = Board()
        self._patience = patience
        self._clock = clock
        self._start = clock()
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        self.board.note(event)

    def _render(self) -> RenderableType:
        return render(self.board, self._clock() - self._start, self._patience)


class PlainLines:
    """A line per snapshot, and a line per epoch at most every `every` seconds."""

    def __init__(self, stream: IO[str], every: float = 3.0, clock: Clock = time.monotonic):
        self._stream = stream
        self._every = every
        self._clock = clock
        self._last_epoch_line = -math.inf
        self._snapshots = 0

    def __call__(self, event: Event) -> None:
        line = self._line(event)
        if line is not None:
            print(line, file=self._stream, flush=True)

    def _line(self, event: Event) -> str | None:
        match event:
            case Compiling():
                return COMPILING
            case RunStarted():
                self._snapshots = event.snapshots
                return (
                    f"{event.method} learns {event.dataset}, "
                    f"{snapshots(event)}{resume_point(event)}"
                )
            case SnapshotStarted():
                return f"{self._place(event.snapshot)}: {sizes(event)}"
            case EpochFinished():
                return self._epoch_line(event)
            case Evaluating():
                return f"{self._place(event.snapshot)}: ranking {event.queries:,} test queries"
            case SnapshotFinished():
                return (
                    f"{self._place(event.snapshot)}: done after {event.epochs} epochs "
                    f"(best {event.best_epoch}) in {clock_time(event.seconds)}, "
                    f"MRR {mrr_text(event.paper_mrr)} (paper) "
                    f"{mrr_text(event.current_mrr)} (current)"
                )
            case RunFinished():
                return f"learned in {clock_time(event.seconds)}"
            case VersionPublished():
                return f"published version {event.version}"

    def _epoch_line(self, event: EpochFinished) -> str | None:
        now = self._clock()
        if now - self._last_epoch_line < self._every:
            return None
        self._last_epoch_line = now
        validation = f"validation MRR {event.valid_mrr:.4f} (best {event.best_mrr:.4f}), "
        return (
            f"{self._place(event.snapshot)} epoch {event.epoch}: loss {event.loss:.4f}, "
            f"{'' if math.isnan(event.valid_mrr) else validation}"
            f"{event.facts_per_second:,.0f} facts/s"
        )

    def _place(self, snapshot: int) -> str:
        return f"snapshot {snapshot + 1}/{self._snapshots}"


@contextmanager
def shown(console: Console, patience: int | None = None) -> Iterator[Listener]:
    """The listener that suits the console: live on a terminal, plain lines elsewhere."""
    if console.is_terminal:
        with LiveDisplay(console, patience) as display:
            yield display
    else:
        yield PlainLines(console.file)


class JsonlLog:
    """Appends each event to a file, one JSON object a line with its type and UTC time.

    Each line is flushed as it is written. A line that a killed run left unfinished is cut off when
    the next one is added, so every line of the file can be parsed.
    """

    def __init__(self, path: Path):
        self._path = path
        self._mended = False

    def __call__(self, event: Event) -> None:
        if not self._mended:
            _cut_unfinished_line(self._path)
            self._mended = True
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json_line(event))


class JsonLines:
    """Writes each event to a stream, one JSON object a line, as `JsonlLog` does to a file."""

    def __init__(self, stream: IO[str]):
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(json_line(event))
        self._stream.flush()


def json_line(event: Event) -> str:
    """An event with its type and UTC time as a line of JSON."""
    record = {
        "type": type(event).__name__,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        **{name: _json_number(value) for name, value in asdict(event).items()},
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def _json_number(value: Any) -> Any:
    """JSON has no nan or infinity: they become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cut_unfinished_line(path: Path) -> None:
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
