"""Three baselines: Fine-tune goes on, Snapshot starts over, Re-train starts over on all facts."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot, among, no_facts
from lkge.methods.base import Method, State, register
from lkge.models.model import Model


@register
class FineTune(Method):
    """Inherits all rows, draws new ones at random, trains on new facts: the defaults, named."""

    name = "fine-tune"
    supports_partial_updates = True

    def partition_obstacle(self, snapshots: int) -> str:
        return ""


@register
class SnapshotOnly(Method):
    """Learns each snapshot alone: all rows are drawn anew before it."""

    name = "snapshot"

    def partition_obstacle(self, snapshots: int) -> str:
        return ""

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Start over."""
        model.restart(snapshot)


@register
class Retrain(SnapshotOnly):
    """Learns D_1 ∪ … ∪ D_i from random rows, selecting on V_1 ∪ … ∪ V_i: the reference, and the
    only method that keeps all facts."""

    name = "re-train"

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._train = self._valid = no_facts()

    def retract(self, facts: Facts) -> None:
        """They are no longer trained on."""
        self._train = self._train[~among(self._train, facts)]
        self._valid = self._valid[~among(self._valid, facts)]

    def facts(self, snapshot: Snapshot) -> Facts:
        """D_1 ∪ … ∪ D_i."""
        return np.concatenate([self._train, snapshot.train])

    def validation(self, snapshot: Snapshot) -> Facts:
        """V_1 ∪ … ∪ V_i."""
        return np.concatenate([self._valid, snapshot.valid])

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Keep the facts."""
        self._train, self._valid = self.facts(snapshot), self.validation(snapshot)

    def state(self) -> State:
        """All facts."""
        return {"train": torch.from_numpy(self._train), "valid": torch.from_numpy(self._valid)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._train, self._valid = state["train"].numpy(), state["valid"].numpy()
