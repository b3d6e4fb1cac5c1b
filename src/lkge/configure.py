"""From presets, files and changes to a `RunConfig`: the one source of defaults.

    a change outweighs a file, a file outweighs the preset, the preset outweighs the class defaults

`lkge run`, `lkge.run` and `lkge init` all call `configure`. What a living graph has otherwise is
the presets `living` and `living-paper`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from lkge.config import SECTIONS, RunConfig, losses_of
from lkge.errors import LkgeError, SettingsError
from lkge.methods import method_named

T = TypeVar("T")

EVERGREEN: Mapping[str, Any] = MappingProxyType(
    {
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
)
"""Evergreen, and the base model that it is made for."""

LIVING: Mapping[str, Any] = MappingProxyType(
    {
        "candidate_fraction": 1.0,
        "replay_queries": 100,
        "replay_weight": 1.0,
        "query_counts": False,
        "max_epochs": 15,
        "patience": 3,
        "min_relative_gain": 0.002,
        "transfer": False,
    }
)
"""Where evergreen differs for a living graph, which learns a few facts at a time."""

LIVING_PAPER: Mapping[str, Any] = MappingProxyType(
    {
        "method": "lkge",
        "learning_rate": 1e-3,
        "batch_size": 512,
        "max_epochs": 100,
        "patience": 5,
        "regularization_weight": 1.0,
        "autoencoder_weight": 1.0,
    }
)
"""The paper's base model for a living graph."""

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "evergreen": EVERGREEN,
        "paper": MappingProxyType({"method": "lkge"}),
        "living": MappingProxyType({**EVERGREEN, **LIVING}),
        "living-paper": LIVING_PAPER,
    }
)
"""Preset → where it differs from the class defaults, which are the paper's."""

OLD_NAMES: Mapping[str, str] = MappingProxyType(
    {
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
        "profile": "query_counts",
        "carried_sums": "carry_optimizer_state",
        "memory": "memory_size",
        "neighbours": "max_neighbours",
    }
)
"""Names of settings in files of release 0.1, which had no sections."""


def configure(
    changes: Mapping[str, Any] = MappingProxyType({}),
    preset: str | None = None,
    *,
    living: bool = False,
) -> RunConfig:
    """`changes` on top of a preset: the named one, or that of the method, which is evergreen where
    none is named."""
    method = changes.get("method", changes.get("method.name"))
    name = preset_of(method, living=living) if preset is None else preset
    if name not in PRESETS:
        raise SettingsError(f"there is no preset {name!r}; known are: {', '.join(PRESETS)}")
    base = with_method(method or PRESETS[name]["method"])
    given = {key: value for key, value in PRESETS[name].items() if key != "method"}
    base = base.with_changes({key: value for key, value in given.items() if base.has(key)})
    return base.with_changes(changes)


def config_or_preset(
    config: RunConfig | None,
    changes: Mapping[str, Any],
    preset: str | None,
    *,
    living: bool = False,
) -> RunConfig:
    """`changes` on top of a whole config, or where there is none on top of a preset."""
    if config is None:
        return configure(changes, preset, living=living)
    if preset is not None:
        raise SettingsError(
            f"config leaves nothing to the preset {preset!r}; leave one of them out"
        )
    method = changes.get("method", changes.get("method.name", config.method.name))
    if method != config.method.name:  # its own settings begin with their defaults
        config = config.model_copy(update={"method": with_method(method).method})
    return config.with_changes(changes)


def preset_of(method: object, *, living: bool = False) -> str:
    """The preset of a method where none is named."""
    own = method in (None, "evergreen")
    if living:
        return "living" if own else "living-paper"
    return "evergreen" if own else "paper"


def for_living(config: RunConfig) -> RunConfig:
    """The config of a run as a living graph goes on with it: steps as in the living preset, the
    strength of a regularisation as in the run."""
    preset = LIVING if preset_of(config.method.name) == "evergreen" else LIVING_PAPER
    of_run = ("method", "regularization_weight", "autoencoder_weight")
    return config.with_changes(
        {
            name: value
            for name, value in preset.items()
            if name not in of_run and config.has(name) and _used(config, name, config.training.loss)
        }
    )


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
    return RunConfig(method=method_named(name).Config(name=name))


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
    tree = _toml(path)
    return _named(path, lambda: from_tree(tree))


def changes_in(path: Path) -> dict[str, Any]:
    """The settings that a TOML file names, by `section.name`."""
    tree = _toml(path)
    if any(isinstance(values, Mapping) for values in tree.values()):
        return _named(path, lambda: _with_sections(tree))
    method = {"method": tree["method"]} if "method" in tree else {}
    return _named(path, lambda: _translated(tree, configure(method)))


def _with_sections(tree: Mapping[str, Any]) -> dict[str, Any]:
    for section, values in tree.items():
        if section not in SECTIONS or not isinstance(values, Mapping):
            raise SettingsError(
                f"{section!r} is not a section; settings stand in "
                + ", ".join(f"[{each}]" for each in SECTIONS)
            )
    return {
        f"{section}.{name}": v for section, values in tree.items() for name, v in values.items()
    }


def _translated(tree: Mapping[str, Any], base: RunConfig) -> dict[str, Any]:
    """Settings of release 0.1 by `section.name`. There was one bag for all methods: those without
    effect on the method and the loss are left out."""
    renamed = {OLD_NAMES.get(name, name): value for name, value in tree.items()}
    if renamed.get("regularization_form") == "printed":
        renamed["regularization_form"] = "linear"
    _refuse_unknown(tree, renamed)
    loss = renamed.get("loss", base.training.loss)
    return {
        ".".join(base.place(name)): value
        for name, value in renamed.items()
        if base.has(name) and _used(base, name, loss)
    }


def _refuse_unknown(tree: Mapping[str, Any], renamed: Mapping[str, Any]) -> None:
    """A name that release 0.1 did not have is an error, not an old setting of another method."""
    training = RunConfig()
    others = {*OLD_NAMES, *(OLD_ONLY_IN_METHODS)}
    for name, new in zip(tree, renamed, strict=True):
        if name not in others and not training.has(new):
            raise SettingsError(f"unknown setting {name!r}")


OLD_ONLY_IN_METHODS = (
    "components",
    "active_components",
    "fine_tuning",
    "autoencoder",
    "transfer",
    "regularization",
)
"""Settings of release 0.1 that kept their names and belong to some methods."""


def _used(base: RunConfig, name: str, loss: object) -> bool:
    section, field = base.place(name)
    losses = losses_of(type(getattr(base, section)), field)
    return loss in losses or field in base.method.also_uses


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error


def _named(path: Path, read: Callable[[], T]) -> T:
    """What `read` gives; its errors name the file."""
    try:
        return read()
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
