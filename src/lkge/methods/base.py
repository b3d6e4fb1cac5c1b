"""What makes a lifelong method: a few hooks, each harmless by default. Together they are Fine-tune.

The trainer calls them in this order for each snapshot i:

    retract   drop what is carried of facts that no longer hold, where there are any
    grow      add rows for new entities and relations; M_{i-1} is now ready to be asked about S_i
    begin     prepare to learn: anchors, weights, a restart
    facts     what to train on, and `validation`, what to select on
    facts_per_entity  how well known the entities are
    loss      the loss of a batch, if it is another than the model's, and `negatives` for it
    batch_size  how many facts it has
    optimizer_state   what the optimizer goes on with, if it does not begin anew
      penalty     per step: add a gradient, return its loss
      adjust      per step: change the whole gradient
      after_step  per step: look back
    keep_optimizer    what the optimizer had gathered at the best epoch
    end       the best epoch is restored; update what is carried over
    inference_parameters   the parameters that answer, and `predictor`, what answers with them
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar

import numpy as np
from torch import Tensor

from lkge import config as settings
from lkge.config import MethodConfig, RunConfig
from lkge.data.snapshots import Facts, Snapshot
from lkge.errors import LkgeError, UnknownName
from lkge.models.losses import Loss
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import Predictor, TablePredictor

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
    Config: ClassVar[type[MethodConfig]] = MethodConfig
    """Its own settings; a subclass of `MethodConfig` defined in the class body."""
    config: MethodConfig
    supports_partial_updates: bool = False
    """Whether a step changes only what belongs to the rows it touches, and all of `state` is tables
    with a row for each entity and relation: then a few facts can be learned on a few rows. Where it
    depends on the settings, `__init__` says so."""

    min_epochs: int = 1
    """Epochs of a snapshot, at least, unless `max_epochs` is smaller."""

    def __init__(self, run: RunConfig) -> None:
        self.run = run
        self.config = run.method

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Add rows for what is new; by default they are drawn at random."""
        model.grow(snapshot)

    def retract(self, facts: Facts) -> None:
        """Facts of earlier snapshots, by their ids, that no longer hold; called before `grow`. What
        is carried over of them must go."""

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Prepare to learn this snapshot; `model` has grown."""

    def facts(self, snapshot: Snapshot) -> Facts:
        """The facts to train on, without inverses; none means that nothing is trained."""
        return snapshot.train

    def validation(self, snapshot: Snapshot) -> Facts:
        """The facts on which the best epoch is selected, without inverses."""
        return snapshot.valid

    def facts_per_entity(self, edges: Facts, snapshot: Snapshot) -> float:
        """How many facts an entity has in the mean, as far as this method has seen them, when it
        learns `edges`, inverses among them; what has none does not count."""
        return len(edges) / max(1, len(np.unique(edges[:, 0])))

    def loss(self, model: Model) -> Loss:
        """The loss of a batch and its gradient."""
        return model.loss

    def patience(self, snapshot: Snapshot) -> int:
        """Epochs without a gain after which the snapshot is learned."""
        return self.run.training.patience

    def batch_size(self, facts: int) -> int:
        """The facts of a batch, of so many in an epoch, inverses among them."""
        return self.run.training.batch_size

    def negatives(self, model: Model) -> int:
        """The negatives that its loss wants for each fact of a batch."""
        return model.negatives

    def optimizer_state(self) -> State | None:
        """What the optimizer had gathered when the last snapshot was learned, rows of what is new
        left out; nothing yet is {}. None: the optimizer begins anew, and is not carried."""
        return None

    def keep_optimizer(self, state: State) -> None:
        """What the optimizer had gathered at the best epoch, to go on with in the next snapshot;
        only if `optimizer_state` is not None. It then belongs to `state`."""

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Add the gradient of this method's own loss; return that loss."""
        return 0.0

    def adjust(self, model: Model, gradient: Gradient) -> None:
        """Change the gradient of the whole loss before it is applied."""

    def after_step(self, model: Model, gradient: Gradient) -> None:
        """Look back on a step: the gradient is still there, the tables have moved."""

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """The snapshot is learned and its best tables restored."""

    def inference_parameters(self, model: Model) -> Parameters:
        """The tables that answer questions."""
        return model.tables

    def predictor(self, model: Model) -> Predictor:
        """What answers questions: by default the inference parameters and the model's score."""
        return TablePredictor.of(self.inference_parameters(model), model.score, model.backend)

    def note(self) -> str:
        """What a reader of the last snapshot's figures should know, such as what this method
        cannot do; usually nothing."""
        return ""

    def state(self) -> State:
        """What is carried from snapshot to snapshot, besides the tables."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""

    def working_state(self) -> State:
        """What must survive an interruption within a snapshot. It goes back to the best epoch
        together with the tables."""
        return {}

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `working_state` gave, after `begin`."""

    def carried_bytes(self) -> int:
        """The size of `state`."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.state().values())


METHODS: dict[str, type[Method]] = {}
"""The registry, by name. `known_methods` has those of other packages in it too."""

ENTRY_POINTS = "lkge.methods"
"""The group of entry points by which another installed package brings methods."""


def register(method: type[Method]) -> type[Method]:
    """Class decorator: make a method known by its name. Its settings must not repeat a name of
    another section: `--set` and keyword arguments may leave the section out."""
    sections = (settings.DatasetConfig, settings.ModelConfig, settings.TrainingConfig)
    taken = {name for section in sections for name in section.model_fields} - {"name"}
    if twice := sorted(taken & method.Config.model_fields.keys()):
        raise ValueError(f"its setting {twice[0]!r} has the name of another section's setting")
    if METHODS.setdefault(method.name, method) is not method:
        raise ValueError(f"two methods are named {method.name!r}")
    settings.METHOD_CONFIGS[method.name] = method.Config
    return method


def method_named(name: str) -> type[Method]:
    """The method of that name."""
    known = known_methods()
    if name not in known:
        raise UnknownName("method", name, sorted(known))
    return known[name]


def known_methods() -> Mapping[str, type[Method]]:
    """All methods by name: of this package, and of others that are installed."""
    load_plugins()
    return METHODS


@functools.cache
def load_plugins() -> None:
    """Register, once, what other installed packages bring."""
    for entry in entry_points(group=ENTRY_POINTS):
        _load(entry)


def _load(entry: EntryPoint) -> None:
    """Register the class that an entry point names."""
    package = entry.dist.name if entry.dist else "an unknown package"
    place = f"the method {entry.name!r} ({entry.value}) of the package {package}"
    try:
        found = entry.load()
    except Exception as error:
        raise LkgeError(f"{place} cannot be loaded: {error}; mend or uninstall it") from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise LkgeError(f"{place} is not a subclass of lkge.methods.Method; mend or uninstall it")
    try:
        register(found)
    except ValueError as error:
        raise LkgeError(f"{place} cannot be added: {error}; rename or uninstall it") from error
