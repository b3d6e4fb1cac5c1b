"""EMR: learn some old facts again, together with the new ones (Wang et al., 2019)."""

import numpy as np

from lkge.data.snapshots import Facts, Snapshot, no_facts
from lkge.methods.base import register
from lkge.methods.memory import MemoryMethod


@register
class Emr(MemoryMethod):
    """Trains on D_i and the memory as one set of facts."""

    name = "emr"
    summary = "learn remembered facts together with the new ones"

    def facts(self, snapshot: Snapshot) -> Facts:
        """D_i ∪ memory; nothing where D_i is empty."""
        remembered = self.memory.facts if len(snapshot.train) else no_facts()
        return np.concatenate([snapshot.train, remembered])
