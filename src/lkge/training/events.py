"""Events of training, and their JSON Lines form. A listener is a function of an event."""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from lkge.data.documents import json_text


@dataclass(frozen=True)
class Compiling:
    """The kernels are compiled, in about half a minute; where they are cached there is no such
    event."""


@dataclass(frozen=True)
class Waiting:
    """Another process consolidates the living graph; this one goes on when that has ended."""

    holder: str


@dataclass(frozen=True)
class RunStarted:
    """Learning begins, or continues after `epochs_done` epochs of snapshot `snapshot`."""

    dataset: str
    method: str
    snapshots: int
    snapshot: int
    epochs_done: int


@dataclass(frozen=True)
class SnapshotStarted:
    """Snapshot `snapshot` (from 0) is about to be learned."""

    snapshot: int
    train_facts: int
    entities: int
    relations: int
    max_epochs: int


@dataclass(frozen=True)
class EpochFinished:
    """One pass over the training facts and one validation; `seconds` counts from the start of
    the snapshot."""

    snapshot: int
    epoch: int
    loss: float
    valid_mrr: float
    best_mrr: float
    epochs_without_gain: int
    facts_per_second: float
    seconds: float


@dataclass(frozen=True)
class Evaluating:
    """The model of snapshot `snapshot` is ranked on the test facts so far."""

    snapshot: int
    queries: int


@dataclass(frozen=True)
class SnapshotFinished:
    """Snapshot learned and evaluated; MRR on the union of tests so far, per protocol."""

    snapshot: int
    epochs: int
    best_epoch: int
    valid_mrr: float
    paper_mrr: float
    current_mrr: float
    seconds: float


@dataclass(frozen=True)
class RunFinished:
    """All snapshots are learned."""

    seconds: float


@dataclass(frozen=True)
class VersionPublished:
    """A living graph has a new version, which has learned batch `batch`."""

    version: int
    batch: int


@dataclass(frozen=True)
class BatchSkipped:
    """A living graph has no version from batch `batch`: nothing in it was new, or, if `failed`, it
    could not be applied."""

    batch: int
    message: str
    failed: bool


Event = (
    Compiling
    | Waiting
    | RunStarted
    | SnapshotStarted
    | EpochFinished
    | Evaluating
    | SnapshotFinished
    | RunFinished
    | VersionPublished
    | BatchSkipped
)
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does nothing."""


def by_default(event: Event) -> None:
    """Stands for the listener that `heard` chooses."""


def every(*listeners: Listener) -> Listener:
    """A listener that passes each event on to all, in their order."""

    def listen(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return listen


@contextmanager
def heard(listener: Listener, patience: int | None = None) -> Iterator[Listener]:
    """The listener; for `by_default` one that shows progress in a terminal or a notebook, and
    nothing elsewhere."""
    if listener is not by_default:
        yield listener
        return
    from rich.console import Console

    screen = Console(stderr=True)
    if screen.is_jupyter:
        screen = Console()
    elif not screen.is_terminal:
        yield ignore
        return
    from lkge.training.display import shown

    with shown(screen, patience) as progress:
        yield progress


class JsonlLog:
    """Appends each event to a file, one JSON object a line with its type and UTC time.

    An incomplete last line, which a killed run may leave, is removed before the first event.
    """

    def __init__(self, path: Path):
        self._path = path
        self._checked = False

    def __call__(self, event: Event) -> None:
        if not self._checked:
            _remove_incomplete_line(self._path)
            self._checked = True
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json_line(event))


class JsonLines:
    """Writes each event to a stream, as `JsonlLog` does to a file."""

    def __init__(self, stream: IO[str]):
        self._stream = stream

    def __call__(self, event: Event) -> None:
        self._stream.write(json_line(event))
        self._stream.flush()


def json_line(event: Event) -> str:
    """An event with its type and UTC time as a line of JSON."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    record = {"type": type(event).__name__, "time": time, **asdict(event)}
    for name, value in record.items():
        if isinstance(value, float) and not math.isfinite(value):
            record[name] = None  # JSON has no nan or infinity
    return json_text(record) + "\n"


def _remove_incomplete_line(path: Path) -> None:
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
