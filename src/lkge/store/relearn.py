"""Learn all known facts at once, from scratch: the update that repairs what was forgotten.

The steps are those of `Update`. What differs: the facts are all known ones except the hold-out set,
training begins with random rows, and all rows are trained. Names keep their ids.
"""

import dataclasses
import math
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lkge.data.history import NO_HISTORY, History
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames
from lkge.data.snapshots import Facts, no_facts
from lkge.errors import RunError
from lkge.methods import method_named
from lkge.models.model import HOLD_OUT, Model
from lkge.models.parameters import host
from lkge.store import records
from lkge.store.inbox import FactBatch
from lkge.store.quality import Quality
from lkge.store.reader import Reader
from lkge.store.subgraph import Subgraph, whole_graph
from lkge.store.update import Start, Update, UpdateResult
from lkge.store.update_split import UpdateSplit, held_out
from lkge.store.versions import LEARNING
from lkge.training.checkpoint import Checkpoints
from lkge.training.events import Listener
from lkge.training.trainer import learned_tensors


@dataclasses.dataclass(frozen=True)
class Relearn(Update):
    """All known facts make the next version; the same version gives the same bytes."""

    kind: ClassVar[str] = records.RELEARN

    def start(self) -> Start:
        """Nothing is learned yet."""
        config = self.reader.config
        tensors = learned_tensors(Model(config), method_named(config.method.name)(config))
        return Start({name: host(tensor) for name, tensor in tensors.items()}, {}, 0)

    def verify(self, subgraph: Subgraph) -> None:
        """No row is read."""

    def split(self) -> UpdateSplit:
        """Step 1: all known facts but the hold-out set. As in a first batch, half of the held-out
        share is for validation; every name keeps a fact for training."""
        reader, config = self.reader, self.store_config
        facts = History(reader.answers, reader.hold_out.facts).all()
        share = config.hold_out_fraction / 2
        held = held_out(facts, share, MappedNames.of(), self._stream(HOLD_OUT))
        held = np.sort(held) if len(held) >= config.min_validation_facts else held[:0]
        return UpdateSplit(
            index=0,
            train=np.delete(facts, held, axis=0),
            valid=facts[held],
            hold_out=no_facts(),
            retracted=no_facts(),
            names=reader.names,
            warnings=(),
        )

    def replay_pool(self, split: UpdateSplit) -> Facts:
        """Nothing beside all facts."""
        return no_facts()

    def choose(self, split: UpdateSplit, pool: Facts) -> Subgraph:
        """Step 2: all rows, all of them new."""
        return whole_graph(0, split.names.num_entities)

    def history(self, pool: Facts, subgraph: Subgraph) -> History:
        """None, as in a first batch: all known facts are learned as new ones."""
        return NO_HISTORY

    def named(self, split: UpdateSplit) -> NDArray[np.int64]:
        """None: no fact is added or retracted."""
        return np.empty(0, np.int64)

    def record(
        self, split: UpdateSplit, result: UpdateResult, known: KnownFacts, measured: Quality
    ) -> records.VersionRecord:
        """Step 7: nothing is new. Rows that begin at random have no drift."""
        record = super().record(split, result, known, measured)
        return dataclasses.replace(record, facts=0, batch=0, drift=math.nan, full=True)


def relearning(reader: Reader, store_config: records.StoreConfig, listener: Listener) -> Relearn:
    """The update of a version that learns all its known facts at once; a RunError if the graph
    keeps none."""
    folder = reader.store.folder
    if not reader.store.options.known:
        raise RunError(
            f"{folder}: keeps no known facts (--no-known), so there is nothing to learn again; "
            "make a graph anew from its facts with `lkge init`"
        )
    if not reader.num_facts:
        raise RunError(f"{folder}: has no known fact; add some with `lkge add`")
    place = folder / LEARNING / f"{reader.version:06}-{records.RELEARN}"
    last = reader.manifest.last_batch
    nothing = FactBatch(last, [], [], 0.0, records.RELEARN, records.now())
    return Relearn(reader, nothing, store_config, listener, Checkpoints(place))
