"""Consolidation: training on all known facts again, when small updates have added up.

Small updates train on new facts and on a sample of the old ones, and lose a little each time. A
consolidation takes that back. It is a version of its own: the new facts are answered before.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from lkge.config import RunConfig
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, no_facts
from lkge.methods import method_named
from lkge.store import records
from lkge.store.inbox import FactBatch
from lkge.store.quality import Quality
from lkge.store.reader import Reader
from lkge.store.records import VersionRecord
from lkge.store.subgraph import Subgraph, whole_graph
from lkge.store.update import Update, UpdateResult
from lkge.store.update_split import UpdateSplit


def epochs_due(reader: Reader) -> int:
    """Epochs of the consolidation that is due; 0: none."""
    if not reader.store.options.known:
        return 0
    method = method_named(reader.config.method.name)(reader.config)
    return method.consolidation_epochs(reader.manifest.facts_since_consolidation, reader.num_facts)


def empty_batch(reader: Reader) -> FactBatch:
    """A batch without facts, under the number of the last one."""
    number, created = reader.manifest.last_batch, reader.record.created
    return FactBatch(number, [], [], 0.0, "all known facts", created)


@dataclasses.dataclass(frozen=True)
class Consolidation(Update):
    """An update whose training facts are all known facts that are not held out."""

    kind = records.CONSOLIDATE
    review = True

    def split(self) -> UpdateSplit:
        """Step 1: all known facts, to train on."""
        none, names = no_facts(), self.reader.names
        nothing = UpdateSplit(self.reader.manifest.updates, none, none, none, none, names, ())
        return dataclasses.replace(nothing, train=self._history(nothing).all())

    def choose(self, split: UpdateSplit, pool: Facts) -> Subgraph:
        """Step 2: all rows."""
        return whole_graph(self.reader.num_entities, self.reader.num_entities)

    def training_config(self, split: UpdateSplit) -> RunConfig:
        """The settings of the graph, with as many epochs as are due."""
        epochs = epochs_due(self.reader)
        return (
            super().training_config(split).with_changes({"max_epochs": epochs, "patience": epochs})
        )

    def replay_pool(self, split: UpdateSplit) -> Facts:
        """Nothing beside all facts."""
        return no_facts()

    def known_answers(self, split: UpdateSplit) -> KnownFacts:
        """As before."""
        return self.reader.answers

    def named(self, split: UpdateSplit) -> NDArray[np.int64]:
        """None: no fact is added or retracted."""
        return np.empty(0, np.int64)

    def record(
        self, split: UpdateSplit, result: UpdateResult, known: KnownFacts, measured: Quality
    ) -> VersionRecord:
        """Step 7: the line of the log; no fact is new."""
        return dataclasses.replace(super().record(split, result, known, measured), facts=0)
