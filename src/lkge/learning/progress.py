"""What happens while learning, as typed events. Whoever wants to show or keep them listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Compiling:
    """The kernels are loaded; where they are not cached yet, that takes half a minute."""


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


Event = (
    Compiling
    | RunStarted
    | SnapshotStarted
    | EpochFinished
    | Evaluating
    | SnapshotFinished
    | RunFinished
    | VersionPublished
)
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does nothing."""
