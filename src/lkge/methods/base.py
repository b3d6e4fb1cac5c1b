"""The base class of all methods, and their registry."""

import functools
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import ClassVar

import numpy as np
from torch import Tensor

from lkge import config as settings
from lkge.config import MethodConfig, RunConfig
from lkge.data.history import NO_HISTORY, History
from lkge.data.snapshots import Facts, Snapshot, no_facts
from lkge.errors import LkgeError, UnknownName
from lkge.methods.profiles import BUILT_IN, GROUP, NOTHING
from lkge.models import model as models
from lkge.models.losses import Loss
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.models.predictor import Predictor, TablePredictor

State = dict[str, Tensor]


class Method:
    """Fine-tune under another name, until a hook is overridden. The trainer calls the hooks for
    each snapshot i in the order in which they stand here.

    A method sees a snapshot only while it learns it. What it keeps afterwards is in `state`, which
    is saved, restored and measured; what it needs only within a snapshot, and cannot derive again
    in `begin`, is in `working_state`.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    keeps: ClassVar[str] = NOTHING
    Config: ClassVar[type[MethodConfig]] = MethodConfig
    """Its own settings; a subclass of `MethodConfig` defined in the class body. Of a method of this
    package, in `X_settings.py` beside `X.py`. `summary` and `keeps` are then in
    `lkge.methods.profiles`."""
    config: MethodConfig
    supports_partial_updates: bool = False
    """Whether a step changes only what belongs to the rows it touches, and all of `state` is tables
    with a row for each entity and relation: then a few facts can be learned on a few rows. Where it
    depends on the settings, `__init__` says so."""
    min_epochs: int = 1
    """Epochs of a snapshot, at least, unless `max_epochs` is smaller."""

    uses_history: bool = False
    """Whether it trains on known facts of earlier snapshots. Then the trainer sets `history` before
    all hooks; a benchmark run and a living graph both have one. `__init__` may set it."""

    num_entities: int = 0
    """The entities of the graph. The trainer sets it before all hooks; a snapshot has only a part
    of them where an update trains a subgraph."""

    retraction_batch_size: int | None = None
    """Retracted facts of a step, inverses among them; a smaller batch weighs less in proportion.
    None: as many as new facts, and no such weight."""

    def __init__(self, run: RunConfig) -> None:
        self.run = run
        self.config = run.method
        self.device = run.training.device
        self.history = NO_HISTORY

    def partition_obstacle(self, snapshots: int) -> str:
        """Why a graph of so many snapshots cannot be learned by partitions (`lkge.distributed`),
        where no hook may look at the entity table; empty if it can."""
        return f"method {self.name} works on whole tables; evergreen, fine-tune and re-train do not"

    def stream(self, *purpose: int) -> np.random.Generator:
        """The random numbers of this run for one purpose; see `lkge.models.model.stream`."""
        return models.stream(self.run.training.seed, *purpose)

    def retract(self, facts: Facts) -> None:
        """Drop what is carried of facts of earlier snapshots, by their ids, that no longer hold."""

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Add rows for what is new, by default at random; then M_{i-1} is evaluated on S_i."""
        model.grow(snapshot)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Prepare to learn this snapshot: centres, weights, a restart."""

    def facts(self, snapshot: Snapshot) -> Facts:
        """The facts to train on, without inverses; none means that nothing is trained."""
        return snapshot.train

    def replayed_facts(self, snapshot: Snapshot, epoch: int) -> Facts:
        """Facts of `history`, (n, 3), that one epoch trains on beside `facts`."""
        return no_facts()

    def replay_pool(
        self, history: History, new: Facts, retracted: Facts, generator: np.random.Generator
    ) -> Facts:
        """Facts of `history`, (n, 3), from which an update of a living graph by `new` facts, some
        `retracted`, will replay; it trains on a subgraph, and that must have their entities."""
        return no_facts()

    def consolidation_epochs(self, new: int, known: int) -> int:
        """Epochs over all known facts that are due after so many new ones since the last time; 0:
        none."""
        return 0

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

    def optimizer_state(self) -> State | None:
        """What the optimizer had gathered when the last snapshot was learned, rows of what is new
        left out; nothing yet is {}. None: the optimizer begins anew, and is not carried."""
        return None

    def max_epochs(self, snapshot: Snapshot) -> int:
        """Epochs of the snapshot, at most."""
        return self.run.training.max_epochs

    def learning_rate(self, snapshot: Snapshot) -> float:
        """Step size of the optimizer."""
        return self.run.training.learning_rate

    def negatives(self, model: Model) -> int:
        """The negatives that its loss wants for each fact of a batch."""
        return model.negatives

    def batch_size(self, facts: int) -> int:
        """The facts of a batch, of so many in an epoch, inverses among them."""
        return self.run.training.batch_size

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Each step: add the gradient of this method's own loss; return that loss."""
        return 0.0

    def adjust(self, model: Model, gradient: Gradient) -> None:
        """Each step: change the gradient of the whole loss before it is applied."""

    def after_step(self, model: Model, gradient: Gradient) -> None:
        """Each step: the tables have moved, and the gradient is still there."""

    def patience(self, snapshot: Snapshot) -> int:
        """Epochs without a gain after which the snapshot is learned."""
        return self.run.training.patience

    def keep_optimizer(self, state: State) -> None:
        """What the optimizer had gathered at the best epoch, for `state` and `optimizer_state`;
        called only if that is not None."""

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """The snapshot is learned and its best tables restored: update what is carried over."""

    def inference_parameters(self, model: Model) -> Parameters:
        """The tables that answer queries."""
        return model.tables

    def predictor(self, model: Model) -> Predictor:
        """What answers queries: by default the inference parameters and the model's score."""
        return TablePredictor.of(self.inference_parameters(model), model.score, model.backend)

    @property
    def ranks_any_rows(self) -> bool:
        """Whether the tables themselves answer, so that a model of some rows ranks these."""
        kind = type(self)
        own = kind.predictor, kind.inference_parameters
        return own == (Method.predictor, Method.inference_parameters)

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


def register(method: type[Method]) -> type[Method]:
    """Class decorator: make a method known by its name. Its settings must not repeat a name of
    another section: `--set` and keyword arguments may leave the section out. A class that is
    defined again, as in a cell of a notebook, takes the place of the one before."""
    sections = (settings.DatasetConfig, settings.ModelConfig, settings.TrainingConfig)
    taken = {name for section in sections for name in section.model_fields} - {"name"}
    if twice := sorted(taken & method.Config.model_fields.keys()):
        raise ValueError(f"its setting {twice[0]!r} has the name of another section's setting")
    known = METHODS.get(method.name, method)
    if (known.__module__, known.__qualname__) != (method.__module__, method.__qualname__):
        raise ValueError(f"two methods are named {method.name!r}")
    METHODS[method.name] = method
    if method.name in BUILT_IN:
        method.summary, method.keeps, _ = BUILT_IN[method.name]
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
    import_module("lkge.methods.built_in")
    load_plugins()
    return METHODS


@functools.cache
def load_plugins() -> None:
    """Register, once, what other installed packages bring by entry points `lkge.methods`."""
    for entry in entry_points(group=GROUP):
        package = entry.dist.name if entry.dist else "an unknown package"
        place = f"the method {entry.name!r} ({entry.value}) of the package {package}"
        try:
            found = entry.load()
        except Exception as error:
            raise LkgeError(f"{place} cannot be loaded: {error}; mend or uninstall it") from error
        if not (isinstance(found, type) and issubclass(found, Method)):
            raise LkgeError(
                f"{place} is not a subclass of lkge.methods.Method; mend or uninstall it"
            )
        try:
            register(found)
        except ValueError as error:
            raise LkgeError(f"{place} cannot be added: {error}; rename or uninstall it") from error
