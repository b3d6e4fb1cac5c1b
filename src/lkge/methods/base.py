"""What makes a lifelong method: a few hooks, each harmless by default. Together they are Fine-tune.

The trainer calls them in this order for each snapshot i:

    grow      add rows for new entities and relations; M_{i-1} is now ready to be asked about S_i
    begin     prepare to learn: anchors, weights, a restart
    facts     what to train on, and `validation`, what to select on
      penalty     per step: add a gradient, return its loss
      adjust      per step: change the whole gradient
      after_step  per step: look back
    end       the best tables are restored; update what is carried over
    served    the tables that answer
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from lkge.config import Settings
from lkge.data.snapshots import Facts, Snapshot
from lkge.errors import UnknownName
from lkge.models.model import Model
from lkge.models.tables import Gradient, Tables

State = dict[str, Tensor]


class Method:
    """Fine-tune under another name, until a hook is overridden.

    A method sees a snapshot only while it learns it. What it keeps afterwards is in `state`, which
    is saved, restored and measured; what it needs only within a snapshot, and cannot derive again
    in `begin`, is in `working_state`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    keeps: ClassVar[str] = "nothing but the tables"

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Add rows for what is new; by default they are drawn at random."""
        model.grow(snapshot)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Prepare to learn this snapshot; `model` has grown."""

    def facts(self, snapshot: Snapshot) -> Facts:
        """The facts to train on, without inverses; none means that nothing is trained."""
        return snapshot.train

    def validation(self, snapshot: Snapshot) -> Facts:
        """The facts on which the best epoch is selected, without inverses."""
        return snapshot.valid

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Add the gradient of this method's own loss; return that loss."""
        return 0.0

    def adjust(self, model: Model, gradient: Gradient) -> None:
        """Change the gradient of the whole loss before it is applied."""

    def after_step(self, model: Model, gradient: Gradient) -> None:
        """Look back on a step: the gradient is still there, the tables have moved."""

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """The snapshot is learned and its best tables restored."""

    def served(self, model: Model) -> Tables:
        """The tables that answer questions."""
        return model.tables

    def state(self) -> State:
        """What is carried from snapshot to snapshot, besides the tables."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""

    def working_state(self) -> State:
        """What must survive an interruption within a snapshot."""
        return {}

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `working_state` gave, after `begin`."""

    def carried_bytes(self) -> int:
        """The size of `state`."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.state().values())


METHODS: dict[str, type[Method]] = {}
"""The registry, by name."""


def register(method: type[Method]) -> type[Method]:
    """Class decorator: make a method known by its name."""
    if METHODS.setdefault(method.name, method) is not method:
        raise ValueError(f"two methods are named {method.name!r}")
    return method


def method_named(name: str) -> type[Method]:
    """The method of that name."""
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    return METHODS[name]
