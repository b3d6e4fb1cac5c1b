"""What a store writes of itself: options, the manifest of a version, and its line of the log."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lkge.store.arrays import FileSeal

INIT, ADD, ROLLBACK = "init", "add", "rollback"


@dataclass(frozen=True)
class VersionRecord:
    """A line of the log. Numbers that could not be measured are nan.

    `created` is UTC to the second; with `add`, when the batch was accepted. `entities`, `relations`
    and `known_facts` are totals. `mrr_new` is of the batch's held-out facts, `mrr_old_before` and
    `mrr_old` of those kept from before; `row` is the MRR of each version's kept facts, by version;
    all ranks were taken among `candidates` entities. `drift` is the mean of 1 - cosine over the
    `touched` old rows that moved.
    """

    version: int
    kind: str
    created: str
    facts: int = 0
    retracted: int = 0
    new_entities: int = 0
    new_relations: int = 0
    entities: int = 0
    relations: int = 0
    known_facts: int = 0
    mrr_new: float = math.nan
    mrr_old_before: float = math.nan
    mrr_old: float = math.nan
    row: dict[str, float] = field(default_factory=dict)
    candidates: int = 0
    drift: float = math.nan
    touched: int = 0
    epochs: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    source: str = ""
    batch: int = 0


@dataclass(frozen=True)
class Manifest:
    """What a version is: the last batch that was learned, its settings, slope and offset of the
    curve of plausibility, its files with their seals, and the log of all versions up to it."""

    version: int
    last_batch: int
    config: dict[str, Any]
    calibration: tuple[float, float]
    files: dict[str, FileSeal] = field(default_factory=dict)
    log: tuple[VersionRecord, ...] = ()
    lessons: int = 0
    """How many lessons its model has had."""

    def __post_init__(self) -> None:
        if [record.version for record in self.log] != list(range(self.version + 1)):
            raise ValueError(f"the log must go from version 0 to {self.version} without a gap")


@dataclass(frozen=True)
class Options:
    """How many versions stay, and whether the known answers are kept."""

    keep: int = 5
    known: bool = True


@dataclass(frozen=True)
class Root:
    """What a store was made with."""

    config: dict[str, Any]
    options: Options


def now() -> str:
    """The time, UTC to the second, as ISO 8601 has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
