"""JIT warm-up: a run of a few facts compiles every kernel before time is measured."""

from functools import cache

import numpy as np
from numba.core.event import Event, install_listener
from numba.core.event import Listener as NumbaListener

from lkge.backends import backend_for
from lkge.config import RunConfig
from lkge.configure import PRESETS, configure
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, no_facts
from lkge.data.vocabulary import Vocabulary
from lkge.training.events import Compiling, Listener, ignore
from lkge.training.loop import Loop

COMPILE = "numba:compile"
"""The event of numba when a kernel is compiled, and not when it is loaded."""
KERNEL_SETTINGS = ("score", "loss", "optimizer", "relation_prediction_weight")
"""Settings that decide which kernels a run uses."""


def warm_up(config: RunConfig, listener: Listener) -> None:
    """Train two tiny snapshots with LKGE, which uses every kernel of its score, loss and optimizer,
    and with the method itself, which may have kernels of its own. `listener` hears of it if one is
    compiled."""
    if not backend_for(config.training.backend, config.training.device).fused:
        return
    with install_listener(COMPILE, _Compilation(listener)):
        for method in sorted({"lkge", config.method.name}):
            _learn_tiny(method, tuple(config.get(name) for name in KERNEL_SETTINGS))


class _Compilation(NumbaListener):  # type: ignore[misc]
    """Passes one event on when the first kernel is compiled; those in the cache are loaded."""

    def __init__(self, listener: Listener) -> None:
        self._listener, self._begun = listener, False

    def on_start(self, event: Event) -> None:
        """A compilation begins."""
        if not self._begun:
            self._begun = True
            self._listener(Compiling())

    def on_end(self, event: Event) -> None:
        """A compilation ends."""


@cache
def _learn_tiny(method: str, settings: tuple[object, ...]) -> None:
    """Run a method with these `KERNEL_SETTINGS`; once in a process."""
    decisive = dict(zip(KERNEL_SETTINGS, settings, strict=True))
    tiny = configure({"method": method, "dim": 8, "max_epochs": 1, **decisive}, "paper")
    if tiny.has("components"):
        tiny = tiny.with_changes({"components": 2, "active_components": 1})
    Loop(_tiny_graph(), tiny).run()


def _tiny_graph() -> GrowingGraph:
    names = Vocabulary(entities=["a", "b", "c", "d"], relations=["r", "s"])
    first = Snapshot(0, _facts((0, 0, 1), (1, 0, 2)), _facts((0, 0, 2)), no_facts(), 3, 1)
    second = Snapshot(1, _facts((2, 2, 3), (0, 0, 3)), _facts((1, 2, 3)), no_facts(), 4, 2)
    return GrowingGraph("warm-up", names, (first, second))


def _facts(*facts: tuple[int, int, int]) -> Facts:
    return np.array(facts, dtype=np.int32)


if __name__ == "__main__":
    for preset in PRESETS:
        warm_up(configure({}, preset), ignore)
