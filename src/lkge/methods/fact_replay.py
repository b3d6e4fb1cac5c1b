"""Replay of known facts: what evergreen does with `memory = "facts"`.

An update is *small* if its new facts are fewer than `small_update` times the known ones. A small
update trains for a fixed number of epochs, with a smaller step size, on the new facts and

    a sample of all known facts, `replayed_per_new` for each new one;
    where facts were retracted, known facts of the entities that they name;
    and on new entities as negatives of other known facts (`lkge.methods.new_entities`).

A larger update trains on all known facts, as a first snapshot does: with early stopping, unless
there are too few validation facts to stop by.

Small updates add up: when their facts are more than `consolidate_after` times the known ones, a
*consolidation* trains on all known facts for `consolidation_epochs`. So the cost of a new fact is
bounded, whatever the size of the graph: about replayed_per_new · update_epochs +
consolidation_epochs / consolidate_after known facts.
"""

import math

import numpy as np

from lkge.data.history import History
from lkge.data.snapshots import Facts
from lkge.methods.fact_replay_settings import FactReplayConfig


class FactReplay:
    """The replay of one update: `new` and `retracted` facts (k, 3) beside those of `history`."""

    def __init__(
        self, config: FactReplayConfig, history: History, new: Facts, retracted: Facts
    ) -> None:
        self._config, self._history, self._retracted = config, history, retracted
        self.small = len(history) > 0 and len(new) < config.small_update * len(history)
        wanted = max(config.min_replayed, math.ceil(config.replayed_per_new * len(new)))
        self._size = min(len(history), wanted)
        self.num_edges = 2 * (len(new) + self._size)
        """Facts of an epoch of a small update, inverses among them."""

    def facts(self, generator: np.random.Generator) -> Facts:
        """The known facts (n, 3) of one epoch."""
        return self._drawn(self._size, generator)

    def pool(self, batch_size: int, generator: np.random.Generator) -> Facts:
        """Known facts (n, 3) for all epochs: to draw from them is about as good as from all."""
        return self._drawn(self._size * self.epochs(batch_size), generator)

    def epochs(self, batch_size: int) -> int:
        """The epochs of a small update."""
        steps = math.ceil(self.num_edges / batch_size)
        return max(self._config.update_epochs, math.ceil(self._config.min_update_steps / steps))

    def facts_of_a_step(self, batch_size: int) -> float:
        """The known facts, inverses among them, that a step would have beside those it replays, if
        an epoch had them all, for each fact of its batch."""
        steps = math.ceil(self.num_edges / batch_size)
        left_out = 2 * (len(self._history) - self._size)
        return left_out / steps / min(batch_size, self.num_edges)

    def retraction_batch_size(self, batch_size: int, epochs: int) -> int:
        """Retracted facts of a step, so that all `epochs` together weigh as much as
        `retraction_strength` says, where batches have at most `batch_size` facts."""
        size = min(batch_size, self.num_edges)
        return max(1, math.ceil(size * epochs / self._config.retraction_strength))

    def _drawn(self, size: int, generator: np.random.Generator) -> Facts:
        """`size` facts and those of retracted entities; all in a large update."""
        if not self.small:
            return self._history.all()
        sample = self._history.sample(size, generator)
        if not len(self._retracted):
            return sample
        most = self._config.replayed_per_retracted
        named = self._history.of_entities(self._retracted[:, (0, 2)].ravel(), most, generator)
        return np.unique(np.concatenate([sample, named]), axis=0)
