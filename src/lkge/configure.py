"""From presets, files and changes to a `RunConfig`: the one source of defaults.

    a change outweighs a file, a file outweighs the preset, the preset outweighs the class defaults

`lkge run`, `lkge.run` and `lkge init` all call `configure`. What a living graph has otherwise is
the presets `living` and `living-paper`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from lkge.config import SECTIONS, RunConfig
from lkge.data.documents import read_toml as read_toml_file
from lkge.errors import LkgeError, SettingsError, did_you_mean, most_similar
from lkge.methods.profiles import profile_of
from lkge.sizing import Size, sized

T = TypeVar("T")

EVERGREEN: Mapping[str, Any] = {
    "method": "evergreen",
    "score": "complex",
    "dim": 200,
    "batch_size": 1500,
    "optimizer": "adagrad",
    "learning_rate": 0.3,
    "loss": "softmax",
    "candidate_fraction": 0.3,
    "n3": 0.05,
    "n3_by_degree": True,
    "parameter_averaging": True,
    "max_epochs": 20,
    "patience": 1,
    "min_relative_gain": 0.01,
}
"""Evergreen, and the base model that it is made for."""

LIVING: Mapping[str, Any] = {
    "replay_queries": 100,
    "replay_weight": 1.0,
    "memory": "facts",
    "max_epochs": 15,
    "patience": 3,
    "min_relative_gain": 0.002,
    "transfer": False,
}
"""Where evergreen differs for a living graph, which learns a few facts at a time."""

LIVING_PAPER: Mapping[str, Any] = {
    "method": "lkge",
    "learning_rate": 1e-3,
    "batch_size": 512,
    "max_epochs": 100,
    "patience": 5,
    "regularization_weight": 1.0,
    "autoencoder_weight": 1.0,
}
"""The paper's base model for a living graph."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "evergreen": EVERGREEN,
    "paper": {"method": "lkge"},
    "living": {**EVERGREEN, **LIVING},
    "living-paper": LIVING_PAPER,
}
"""Preset → where it differs from the class defaults, which are the paper's."""

OLD_NAMES: Mapping[str, str] = {
    "objective": "loss",
    "sharing": "negatives_shared_by",
    "rivals": "candidate_fraction",
    "adversarial": "adversarial_temperature",
    "relation_weight": "relation_prediction_weight",
    "sparse_n3": "n3_by_degree",
    "least_gain": "min_relative_gain",
    "averaging": "parameter_averaging",
    "alpha": "regularization_weight",
    "beta": "autoencoder_weight",
    "omega": "regularization_form",
    "distillation": "replay_weight",
    "told": "replay_share",
    "heart": "replay_model",
    "questions": "replay_queries",
    "profile": "memory",
    "carried_sums": "carry_optimizer_state",
    "memory": "memory_size",
    "neighbours": "max_neighbours",
    "components": "components",
    "active_components": "active_components",
    "fine_tuning": "fine_tuning",
    "autoencoder": "autoencoder",
    "transfer": "transfer",
    "regularization": "regularization",
}
"""Names of settings in files of release 0.1, which had no sections; the last six belong to some
methods only and kept their names."""


def configure(
    changes: Mapping[str, Any] = MappingProxyType({}),
    preset: str | None = None,
    *,
    config: RunConfig | None = None,
    living: bool = False,
    size: Size | None = None,
) -> RunConfig:
    """`changes` on top of a whole `config`, or else of a preset: the named one, or that of the
    method, which is evergreen where none is named. What is not in `changes` then follows from the
    `size` of the graph (`lkge.sizing`)."""
    chosen = _configured(changes, preset, config, living)
    if living and chosen.training.partitions:
        raise SettingsError("training.partitions has no effect in a living graph; leave it out")
    if size is None:
        return chosen
    return sized(chosen, size, {".".join(chosen.place(name)) for name in changes})


def _configured(
    changes: Mapping[str, Any], preset: str | None, config: RunConfig | None, living: bool
) -> RunConfig:
    method = changes.get("method", changes.get("method.name"))
    if config is None:
        name = preset_of(method, living=living) if preset is None else preset
        return _of_preset(name, method).with_changes(changes)
    if preset is not None:
        raise SettingsError(
            f"config leaves nothing to the preset {preset!r}; leave one of them out"
        )
    if method not in (None, config.method.name):  # its own settings begin with their defaults
        config = config.model_copy(update={"method": with_method(method).method})
    return config.with_changes(changes)


def preset_of(method: object, *, living: bool = False) -> str:
    """The preset of a method where none is named."""
    own = method in (None, "evergreen")
    if living:
        return "living" if own else "living-paper"
    return "evergreen" if own else "paper"


def _of_preset(name: str, method: object) -> RunConfig:
    """A preset, with another method than its own if one is given."""
    if name not in PRESETS:
        near = did_you_mean([list(PRESETS)[at] for at in most_similar(name, list(PRESETS))])
        known = ", ".join(PRESETS)
        raise SettingsError(f"there is no preset {name!r}; known are: {known}.{near}")
    given = dict(PRESETS[name])
    base = with_method(method or given["method"])
    del given["method"]
    return base.with_changes({key: value for key, value in given.items() if base.has(key)})


def for_living(config: RunConfig) -> RunConfig:
    """The config of a run as a living graph goes on with it: steps as in the living preset, the
    strength of a regularisation as in the run."""
    preset = LIVING if preset_of(config.method.name) == "evergreen" else LIVING_PAPER
    config = config.with_changes({"training.partitions": 0})
    of_run = ("method", "regularization_weight", "autoencoder_weight")
    steps = {name: preset[name] for name in preset if name not in of_run and config.has(name)}
    return config.with_changes({name: steps[name] for name in steps if config.uses(name)})


def flat_config(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a results file by `section.name`; of any method, installed or not."""
    try:
        return from_tree(tree).flat()
    except LkgeError:
        sections = {key: value for key, value in tree.items() if isinstance(value, Mapping)}
        return _with_sections(sections) if sections else dict(tree)


def with_method(name: object) -> RunConfig:
    """The class defaults, and the settings of one method."""
    if not isinstance(name, str):
        raise SettingsError(f"method = {name!r} must be a name; `lkge methods` lists them")
    return RunConfig(method=profile_of(name).config(name=name))


def from_tree(tree: Mapping[str, Any]) -> RunConfig:
    """What `RunConfig.to_dict` gave, or the settings of release 0.1, which had no sections. What
    is left out has the class default."""
    if not all(isinstance(values, Mapping) for values in tree.values()):
        base = with_method(tree.get("method", "lkge"))
        return base.with_changes(_translated(tree, base))
    changes = _with_sections(tree)
    return with_method(changes.get("method.name", "lkge")).with_changes(changes)


def read_toml(path: Path) -> RunConfig:
    """The config of a run folder; what the file leaves out has the class default."""
    return _from_file(path, from_tree)


def changes_in(path: Path) -> dict[str, Any]:
    """The settings that a TOML file names, by `section.name`."""

    def named(tree: Mapping[str, Any]) -> dict[str, Any]:
        if any(isinstance(values, Mapping) for values in tree.values()):
            return _with_sections(tree)
        return _translated(tree, configure({"method": tree["method"]} if "method" in tree else {}))

    return _from_file(path, named)


def _with_sections(tree: Mapping[str, Any]) -> dict[str, Any]:
    for section, values in tree.items():
        if section not in SECTIONS or not isinstance(values, Mapping):
            known = ", ".join(f"[{each}]" for each in SECTIONS)
            raise SettingsError(f"{section!r} is not a section; settings stand in {known}")
    return {f"{part}.{name}": v for part, values in tree.items() for name, v in values.items()}


def _translated(tree: Mapping[str, Any], base: RunConfig) -> dict[str, Any]:
    """Settings of release 0.1 by `section.name`. There was one bag for all methods: those without
    effect on the method and the loss are left out."""
    for name in tree:
        if name not in OLD_NAMES and not RunConfig().has(name):
            raise SettingsError(f"unknown setting {name!r}")
    renamed = {OLD_NAMES.get(name, name): value for name, value in tree.items()}
    if renamed.get("regularization_form") == "printed":
        renamed["regularization_form"] = "linear"
    if isinstance(renamed.get("memory"), bool):  # "profile"
        renamed["memory"] = "generative" if renamed["memory"] else "none"
    if "loss" in renamed:
        base = base.with_changes(loss=renamed["loss"])
    used = [name for name in renamed if base.has(name) and base.uses(name)]
    return {".".join(base.place(name)): renamed[name] for name in used}


def _from_file(path: Path, convert: Callable[[Mapping[str, Any]], T]) -> T:
    """What `convert` makes of a TOML file; errors name the file."""
    try:
        return convert(read_toml_file(path))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
