"""What a benchmark reports, and how it measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Seconds for the same work done here and elsewhere; `wanted` is the ratio to reach."""

    name: str
    ours: float
    other: float
    peer: str
    wanted: float

    @property
    def ratio(self) -> float:
        """How many times faster this package is."""
        return self.other / self.ours

    @property
    def reached(self) -> bool:
        """Whether the wanted ratio was reached."""
        return self.ratio >= self.wanted


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The best time of several runs, after one that is not counted."""
    work()
    return min(once(work) for _ in range(repeats))


def once(work: Callable[[], object]) -> float:
    """The time of a single run."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
