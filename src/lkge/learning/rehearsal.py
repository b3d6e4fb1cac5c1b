"""A run of a few facts, so that every kernel is compiled before the first clock starts."""

from __future__ import annotations

import numpy as np

from lkge.backends import backend_for
from lkge.config import PRESETS, RunConfig, configure
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, no_facts
from lkge.data.vocabulary import Vocabulary
from lkge.learning.loop import Loop
from lkge.learning.progress import Compiling, Listener, ignore

DECISIVE = ("score", "objective", "optimizer", "relation_weight")
"""Settings that decide which kernels a run uses."""


def rehearse(config: RunConfig, listener: Listener) -> None:
    """Learn two tiny snapshots with LKGE, which uses every kernel of its score, objective and
    optimizer, and with the method itself, which may have its own; and forget them."""
    if not backend_for(config.training.backend, config.training.device).fused:
        return
    listener(Compiling())
    chosen = {name: getattr(config, name) for name in DECISIVE}
    tiny = RunConfig(dim=8, max_epochs=1, components=2, active_components=1).with_changes(chosen)
    for method in sorted({"lkge", config.method.name}):
        Loop(_tiny_graph(), tiny.with_changes({"method": method})).run()


def _tiny_graph() -> GrowingGraph:
    names = Vocabulary(entities=["a", "b", "c", "d"], relations=["r", "s"])
    return GrowingGraph(
        name="rehearsal",
        vocabulary=names,
        snapshots=(
            Snapshot(0, _facts((0, 0, 1), (1, 0, 2)), _facts((0, 0, 2)), no_facts(), 3, 1),
            Snapshot(1, _facts((2, 2, 3), (0, 0, 3)), _facts((1, 2, 3)), no_facts(), 4, 2),
        ),
    )


def _facts(*facts: tuple[int, int, int]) -> Facts:
    return np.array(facts, dtype=np.int32)


if __name__ == "__main__":
    for preset in PRESETS:
        rehearse(configure({}, preset), ignore)
