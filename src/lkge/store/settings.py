"""Other settings for the later updates of a living graph."""

from collections.abc import Mapping
from typing import Any

from lkge.config import RunConfig
from lkge.errors import SettingsError
from lkge.methods import method_named
from lkge.models.model import Model
from lkge.training.trainer import learned_tensors

FIXED = ("dataset.name", "model.score", "model.dim", "method.name", "method.components")
"""What the tables of a graph, and the meaning of their rows, depend on."""
MEMORY = "method.memory"


def changed_config(config: RunConfig, changes: Mapping[str, Any], known: bool) -> RunConfig:
    """The config with some settings replaced. SettingsError if nothing changes, or if the tables of
    the graph do not fit the new settings. `known`: whether the graph keeps its known facts."""
    if not changes:
        raise SettingsError("no setting is given; give one, such as training.learning_rate=0.05")
    changed = config.with_changes(changes)
    for name in map(".".join, map(config.place, changes)):
        if name in FIXED and changed.get(name) != config.get(name):
            raise _fixed(name, config)
    if changed == config:
        raise SettingsError("the graph has these settings already; give another value")
    if _shapes(changed) != _shapes(config):
        raise _fixed(", ".join(changes), config)
    if not known and changed.has(MEMORY) and changed.get(MEMORY) == "facts":
        raise SettingsError(f"{MEMORY} = 'facts' needs known facts, which this graph does not keep")
    return changed


def described(changes: Mapping[str, Any]) -> str:
    """Changes as `--set` takes them."""
    return ", ".join(f"{name}={value}" for name, value in changes.items())


def _shapes(config: RunConfig) -> dict[str, tuple[int, ...]]:
    """The tensors of a model that has learned nothing, and the shape of a row of each."""
    tensors = learned_tensors(Model(config), method_named(config.method.name)(config))
    return {name: tuple(tensor.shape[1:]) for name, tensor in tensors.items()}


def _fixed(name: str, config: RunConfig) -> SettingsError:
    own = f" = {config.get(name)!r}" if config.has(name) else ""
    return SettingsError(
        f"{name}{own} stays: the embeddings of the graph depend on it; make another graph with "
        "`lkge init`, and add the facts to that"
    )
