"""A small growing graph, settings that learn it in a blink, and what to compare runs by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import torch

from lkge.config import RunConfig
from lkge.data.snapshots import GrowingGraph, Snapshot
from lkge.data.vocabulary import Vocabulary
from lkge.evaluation.results import Results
from lkge.models.parameters import Parameters
from lkge.testing import paper_config

FACTS, TRAIN, VALID = 40, 24, 8
"""New facts a snapshot, and how many of them are for training and validation."""


def made_graph(snapshots: int = 3, seed: int = 0) -> GrowingGraph:
    """Random facts; each snapshot brings six entities and one relation."""
    generator = np.random.default_rng(seed)
    counts = [(12 + 6 * i, 2 + i) for i in range(snapshots)]
    seen: dict[tuple[int, ...], None] = {}
    shots = []
    for index, (entities, relations) in enumerate(counts):
        known = len(seen)
        while len(seen) < known + FACTS:
            subject, target = generator.integers(0, entities, 2).tolist()
            seen[subject, 2 * int(generator.integers(0, relations)), target] = None
        facts = np.array(list(seen)[known:], dtype=np.int32)
        train, valid, test = np.split(facts, [TRAIN, TRAIN + VALID])
        shots.append(Snapshot(index, train, valid, test, entities, relations))
    entities, relations = counts[-1]
    names = Vocabulary(
        [f"entity {n}" for n in range(entities)], [f"relation {n}" for n in range(relations)]
    )
    return GrowingGraph("made", names, tuple(shots))


def quick(method: str = "fine-tune", **changes: Any) -> RunConfig:
    """Settings with which an epoch has two steps and takes about a millisecond."""
    small: dict[str, Any] = {"dim": 8, "batch_size": 32, "learning_rate": 0.05, "seed": 3}
    if changes.get("loss") != "softmax":
        small["negatives"] = 2
    chosen = {"method": method, "max_epochs": 4, "patience": 2} | small | changes
    return paper_config(dataset="made", **chosen)


def bytes_of(tables: Parameters) -> bytes:
    """Every bit of both tables."""
    return b"".join(table.numpy().tobytes() for table in tables)


def without_seconds(results: Results) -> dict[str, Any]:
    """All that must be the same whenever the same is learned."""
    tree = results.to_json()
    for record in tree["snapshots"]:
        del record["seconds"], record["validation_seconds"]
    return tree


def names_of(events: Sequence[object]) -> list[str]:
    """The types of events, in order."""
    return [type(event).__name__ for event in events]


@contextmanager
def single_threaded() -> Iterator[None]:
    """Work that takes a millisecond is not worth sharing out."""
    before = numba.get_num_threads(), torch.get_num_threads()
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    yield
    numba.set_num_threads(before[0])
    torch.set_num_threads(before[1])
