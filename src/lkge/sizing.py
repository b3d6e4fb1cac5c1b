"""Settings that follow from the size of a graph, and what training will take.

Up to `LARGE` entities the presets hold. In a larger graph the softmax of a batch runs over fewer
entities, batches are smaller, and validation facts are ranked among a sample. A setting that was
given, or that differs from the preset, stays as it is.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lkge.config import RunConfig
from lkge.data.reading import memory_of_machine

LARGE = 20_000
"""Up to so many entities nothing changes."""
CANDIDATES = 6_000
"""Entities drawn for a batch at that size; fewer in proportion in a larger graph, but not below"""
LEAST_CANDIDATES = 512
BATCH_SIZE = 512
VALIDATION_CANDIDATES = 20_000
PRESET_VALUES: Mapping[str, Any] = {
    "training.max_candidates": 0,
    "training.validation_candidates": 0,
    "training.batch_size": 1500,
}
"""The settings that follow from the size, and their values up to `LARGE` entities."""

BYTES_PER_FACT = 150
BYTES_OF_PROCESS = 600 << 20
ROW_PASSES = 8
"""Reads and writes of a row in a step: tables, gradient, optimizer."""
TIMED = 5


@dataclass(frozen=True)
class Size:
    """How many entities and facts a graph has."""

    entities: int
    facts: int

    @property
    def is_large(self) -> bool:
        """Whether settings follow from it."""
        return self.entities > LARGE


@dataclass(frozen=True)
class Estimate:
    """What training on all facts takes, about: seconds of an epoch, and bytes of memory."""

    seconds: float
    memory: int


def sized(config: RunConfig, size: Size, given: Collection[str] = ()) -> RunConfig:
    """The config for a graph of this size. `given` are settings, by `section.name`, that stay."""
    if not size.is_large or config.training.loss != "softmax":
        chosen = {}
    else:
        drawn = max(LEAST_CANDIDATES, CANDIDATES * LARGE // size.entities)
        chosen = {"training.max_candidates": drawn, "training.batch_size": BATCH_SIZE}
        if config.training.candidate_fraction == 1:
            del chosen["training.max_candidates"]
    if size.is_large:
        chosen["training.validation_candidates"] = VALIDATION_CANDIDATES
    free = [name for name in chosen if name not in given]
    free = [name for name in free if config.get(name) == PRESET_VALUES[name]]
    return config.with_changes({name: chosen[name] for name in free})


def estimate(config: RunConfig, size: Size) -> Estimate:
    """What an epoch over all facts takes on this machine, about. The seconds are those of the
    matrix products of the softmax and of moving the rows of a batch, both timed here."""
    training, dim = config.training, config.model.dim
    batch = max(1, min(training.batch_size, 2 * size.facts))
    drawn = int(training.candidate_fraction * size.entities)
    if size.entities <= training.all_candidates_below:
        drawn = size.entities
    drawn = min(drawn, training.max_candidates) if training.max_candidates else drawn
    if training.loss != "softmax":
        drawn = training.negatives
    candidates = min(size.entities, drawn + 2 * batch)
    product, row = _speeds(dim)
    steps = 2 * size.facts / batch
    seconds = steps * (3 * 2 * batch * candidates * dim / product + (candidates + batch) * row)
    memory = bytes_of_tables(config, size.entities) + BYTES_PER_FACT * size.facts + BYTES_OF_PROCESS
    return Estimate(seconds, memory)


def bytes_of_tables(config: RunConfig, entities: int) -> int:
    """What the rows of entities take: parameters, gradient, optimizer state, their average, and two
    of these at the best epoch."""
    tables = 5 + bool(config.training.parameter_averaging)
    return 4 * config.model.dim * entities * tables


def partitions(config: RunConfig, size: Size, workers: int = 1) -> int:
    """Into how many shards the rows of entities are divided: two for each of several workers. In
    one process, if all take more than half of the memory, so many that two take an eighth of it;
    otherwise 0: they are not divided."""
    given, memory = config.training.partitions, memory_of_machine()
    if given or workers > 1:
        return given or 2 * workers
    needed = bytes_of_tables(config, size.entities)
    return 0 if needed <= memory // 2 else 2 * min(128, -(-8 * needed // memory))


def describe(config: RunConfig, size: Size) -> str:
    """What was chosen for a graph of this size, and what it takes, in one line."""
    training, expected = config.training, estimate(config, size)
    parts = [
        f"{size.entities:,} entities, {size.facts:,} facts",
        f"batches of {training.batch_size:,}",
    ]
    if training.loss == "softmax" and training.max_candidates:
        parts.append(f"softmax over {training.max_candidates:,} entities and those of the batch")
    if training.validation_candidates:
        parts.append(f"validation among {training.validation_candidates:,}")
    parts.append(
        f"about {expected.seconds / 60:.1f} minutes an epoch, at most {training.max_epochs} epochs"
    )
    if training.partitions:
        parts.append(f"{training.partitions} partitions, two at a time")
        return "; ".join(parts)
    parts.append(f"{expected.memory / 2**30:.1f} GiB of memory")
    if expected.memory > (there := memory_of_machine()):
        parts.append(f"this machine has {there / 2**30:.1f} GiB: choose a smaller --dim")
    return "; ".join(parts)


def _speeds(dim: int) -> tuple[float, float]:
    """Operations of a matrix product in a second, and seconds to update a row."""
    import torch

    left, right = torch.ones(512, dim), torch.ones(dim, 1024)
    product = _fastest(lambda: torch.mm(left, right))
    table, rows = torch.zeros(20_000, dim), torch.randint(20_000, (1_000,))
    moved = _fastest(lambda: table.index_select(0, rows).sqrt_().add_(1).mul_(2))
    return 2 * 512 * 1024 * dim / product, ROW_PASSES * moved / len(rows)


def _fastest(function: Callable[[], object]) -> float:
    """Seconds of a call, the best of a few."""
    times = []
    for _ in range(TIMED):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)
