"""The settings of a run: frozen, checked, and the only place with defaults."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, get_type_hints

from lkge.errors import SettingsError


@dataclass(frozen=True)
class Settings:
    """Everything that decides the outcome of a run. The defaults are the paper's.

    Omega weighs a row's pull to its old value: `printed` is ω·‖Δ‖² as in Eq. (10), `squared` is
    ‖ω·Δ‖², as the code behind the paper's tables has it.
    """

    dataset: str = "brick"
    method: str = "lkge"
    seed: int = 11
    score: str = "transe"
    dim: int = 200
    batch_size: int = 2048
    optimizer: str = "adam"
    learning_rate: float = 1e-4
    objective: str = "margin"
    negatives: int = 10
    sharing: int = 1
    rivals: float = 1.0
    margin: float = 8.0
    adversarial: float = 0.0
    label_smoothing: float = 0.0
    relation_weight: float = 0.0
    n3: float = 0.0
    sparse_n3: bool = False
    l2: float = 0.0
    max_epochs: int = 200
    patience: int = 3
    least_gain: float = 0.0
    alpha: float = 0.01
    beta: float = 0.1
    omega: str = "printed"
    distillation: float = 1.0
    told: float = 1.0
    heart: bool = True
    questions: int = 600
    profile: bool = True
    carried_sums: bool = True
    averaging: bool = False
    memory: int = 5000
    neighbours: int = 64
    components: int = 8
    active_components: int = 4
    fine_tuning: bool = True
    autoencoder: bool = True
    transfer: bool = True
    regularization: bool = True
    backend: str = "auto"
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in (
            *("dim", "batch_size", "negatives", "sharing", "max_epochs", "patience"),
            *("neighbours", "components", "active_components", "questions"),
        ):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        weights = (
            *("alpha", "beta", "distillation", "margin", "adversarial"),
            *("relation_weight", "n3", "l2", "least_gain"),
        )
        for name in ("seed", "memory", "label_smoothing", *weights):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "zero or more")
        for name in ("learning_rate", *weights):
            _require(math.isfinite(getattr(self, name)), name, getattr(self, name), "finite")
        _require(self.learning_rate > 0, "learning_rate", self.learning_rate, "above zero")
        _require(0 <= self.told <= 1, "told", self.told, "from 0 to 1")
        _require(0 < self.rivals <= 1, "rivals", self.rivals, "above 0, and 1 at most")
        _require(self.label_smoothing < 1, "label_smoothing", self.label_smoothing, "below 1")
        _require(self.optimizer in OPTIMIZERS, "optimizer", self.optimizer, " or ".join(OPTIMIZERS))
        _require(self.objective in OBJECTIVES, "objective", self.objective, ", ".join(OBJECTIVES))
        _require(self.omega in OMEGAS, "omega", self.omega, " or ".join(OMEGAS))
        _require(self.backend in BACKENDS, "backend", self.backend, ", ".join(BACKENDS))

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some fields replaced; names and types are checked."""
        types = get_type_hints(type(self))
        unknown = sorted(set(changes) - set(types))
        if unknown:
            raise SettingsError(f"unknown setting {unknown[0]!r}; known are: {', '.join(types)}")
        return dataclasses.replace(
            self, **{name: _typed(name, value, types[name]) for name, value in changes.items()}
        )

    def to_dict(self) -> dict[str, Any]:
        """Field by field, for JSON."""
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """One `name = value` a line; `from_toml` reads it back."""
        return "".join(f"{name} = {_literal(value)}\n" for name, value in self.to_dict().items())


EVERGREEN: Mapping[str, Any] = MappingProxyType(
    {
        "method": "evergreen",
        "score": "complex",
        "dim": 200,
        "batch_size": 1500,
        "optimizer": "adagrad",
        "learning_rate": 0.3,
        "objective": "softmax",
        "rivals": 0.3,
        "n3": 0.05,
        "sparse_n3": True,
        "averaging": True,
        "questions": 400,
        "distillation": 2.0,
        "max_epochs": 20,
        "patience": 1,
        "least_gain": 0.01,
    }
)
"""Where the settings of evergreen, and of the base model that it is made for, differ."""

PAPER = "paper"
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"evergreen": EVERGREEN, PAPER: MappingProxyType({})}
)
"""Name → where its settings differ from the paper's."""

METHOD = LIVING_METHOD = "evergreen"
"""Where no method is named: that of a run, and that of a living graph."""

LIVING: Mapping[str, Any] = MappingProxyType(
    {
        "learning_rate": 1e-3,
        "batch_size": 512,
        "max_epochs": 100,
        "patience": 5,
        "alpha": 1.0,
        "beta": 1.0,
    }
)
"""Where the paper's preset differs for a living graph: it learns a few facts at a time."""

LIVING_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "evergreen": MappingProxyType(
            {
                "rivals": 1.0,
                "questions": 100,
                "distillation": 1.0,
                "profile": False,
                "max_epochs": 15,
                "patience": 3,
                "least_gain": 0.002,
                "transfer": False,
            }
        ),
        PAPER: LIVING,
    }
)
"""Preset → where it differs for a living graph."""

OPTIMIZERS = ("adam", "adagrad")
OBJECTIVES = ("margin", "softmax", "sampled")
OMEGAS = ("printed", "squared")
BACKENDS = ("auto", "numba", "torch")


def preset_of(method: str) -> str:
    """The preset that a method has where none is named: its own, or else the paper's."""
    return method if method in PRESETS else PAPER


def settings_with(
    changes: Mapping[str, Any], preset: str | None = None, *, living: bool = False
) -> Settings:
    """`changes` on top of a preset, or where none is named on top of that of the method."""
    method = Settings(method=LIVING_METHOD if living else METHOD).with_changes(changes).method
    name = preset_of(method) if preset is None else preset
    if name not in PRESETS:
        raise SettingsError(f"there is no preset {name!r}; known are: {', '.join(PRESETS)}")
    few = LIVING_PRESETS[name] if living else {}
    return Settings().with_changes({**PRESETS[name], **few, **changes})


def chosen_settings(
    settings: Settings | None,
    changes: Mapping[str, Any],
    preset: str | None,
    *,
    living: bool = False,
) -> Settings:
    """`changes` on top of `settings`, or where there are none on top of a preset."""
    if settings is None:
        return settings_with(changes, preset, living=living)
    if preset is not None:
        raise SettingsError(f"settings leave nothing to the preset {preset!r}; leave it out")
    return settings.with_changes(changes)


def from_toml(path: Path) -> Settings:
    """Settings from a flat TOML file, such as that of a run; what it leaves out is the paper's."""
    return Settings().with_changes(changes_in(path))


def changes_in(path: Path) -> dict[str, Any]:
    """The settings that a flat TOML file names; names, types and ranges are checked."""
    try:
        changes = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}") from error
    try:
        Settings().with_changes(changes)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    return changes


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise SettingsError(f"{name} = {value!r} is out of range: it must be {rule}")


def _typed(name: str, value: Any, kind: type) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise SettingsError(f"{name} = {value!r} must be of type {kind.__name__}")
    return value


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")
    return repr(value)
