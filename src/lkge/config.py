"""The settings of a run in four sections: dataset, model, training and method.

The defaults of `training` are the paper's. A method's own settings are its `Config`, a subclass of
`MethodConfig` beside the method. `lkge.configure` makes a `RunConfig` from presets, files and
changes.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from lkge.common_settings import COMMON
from lkge.errors import SettingsError, did_you_mean, most_similar

Losses = tuple[str, ...]
LOSSES: Losses = ("margin", "softmax", "sampled")
WITH_NEGATIVES: Losses = ("margin", "sampled")
WITH_CANDIDATES: Losses = ("softmax", "sampled")
SECTIONS = ("dataset", "model", "training", "method")
MAX_SHOWN = 200
"""Characters of a wrong value in an error, at most."""


def setting(
    default: Any, text: str, *, losses: Losses = LOSSES, grid: Any = (), **bounds: Any
) -> Any:
    """A field of a section: its default, what it does, and the losses that use it. `grid` are the
    values that `lkge tune` tries; `bounds` are those of pydantic, such as ge=0."""
    extra: dict[str, Any] = {"losses": losses, "grid": tuple(grid)}
    return Field(default, description=text, json_schema_extra=extra, **bounds)


class Section(BaseModel):
    """Settings that are frozen and checked. Unknown names and other types are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def grid(cls) -> dict[str, tuple[Any, ...]]:
        """The settings that `lkge tune` varies, and their values."""
        found = {name: _extra(cls, name).get("grid", ()) for name in cls.model_fields}
        return {name: values for name, values in found.items() if values}


class DatasetConfig(Section):
    """Which facts."""

    name: str = setting("brick", COMMON["dataset"].text)


class ModelConfig(Section):
    """What is learned."""

    score: str = setting("transe", COMMON["score"].text)
    dim: int = setting(200, COMMON["dim"].text, ge=1, grid=(100, 200))


class TrainingConfig(Section):
    """How a snapshot is learned. The defaults are the paper's."""

    seed: int = setting(11, COMMON["seed"].text, ge=0)
    loss: Literal["margin", "softmax", "sampled"] = setting(
        "margin", "margin, softmax (over all entities) or sampled (softmax over negatives)."
    )
    optimizer: Literal["adam", "adagrad"] = setting("adam", "adam or adagrad.")
    learning_rate: float = setting(
        1e-4, COMMON["learning_rate"].text, gt=0, grid=(0.0005, 0.0001, 0.001)
    )
    batch_size: int = setting(2048, COMMON["batch_size"].text, ge=1, grid=(1024, 2048))
    max_epochs: int = setting(200, COMMON["max_epochs"].text, ge=1)
    patience: int = setting(3, COMMON["patience"].text, ge=1)
    min_relative_gain: float = setting(
        0.0, "A validation MRR counts as better if it is higher by this share.", ge=0
    )
    negatives: int = setting(
        10, "Corrupted facts for each positive fact.", losses=WITH_NEGATIVES, ge=1
    )
    negatives_shared_by: int = setting(
        1, "Facts in a row that share their negatives.", losses=WITH_NEGATIVES, ge=1
    )
    margin: float = setting(
        8.0, "γ: how much lower a negative must score than its positive.", losses=("margin",), ge=0
    )
    adversarial_temperature: float = setting(
        0.0, "τ: negatives weigh softmax(τ·score). 0: all the same.", losses=WITH_NEGATIVES, ge=0
    )
    label_smoothing: float = setting(
        0.0, "Share of the target spread over all candidates.", losses=WITH_CANDIDATES, ge=0, lt=1
    )
    candidate_fraction: float = setting(
        1.0, "Share of all entities in the softmax of a batch.", losses=("softmax",), gt=0, le=1
    )
    all_candidates_below: int = setting(
        5000, "Up to so many entities are all candidates of the softmax.", losses=("softmax",), ge=0
    )
    max_candidates: int = setting(
        0, "Entities drawn for the softmax of a batch, at most; 0: no limit.",
        losses=("softmax",), ge=0,
    )  # fmt: skip
    validation_candidates: int = setting(
        0, "Entities drawn to rank validation facts among, in a larger graph; 0: all.", ge=0
    )
    partitions: int = setting(
        0, "Shards of the entity rows, two of which are trained at a time; 0: by size.", ge=0
    )
    relation_prediction_weight: float = setting(
        0.0, "Weight of relation prediction, (s, ?, o), as a second task.", ge=0
    )
    n3: float = setting(0.0, "Weight of the N3 penalty on the rows of a batch.", ge=0)
    n3_by_degree: bool = setting(
        False, "Scale n3 by facts per entity k: (sparse/k)^power below, (dense/k)^power above."
    )
    n3_sparse_degree: float = setting(20.0, "Below so many facts per entity n3 is larger.", gt=0)
    n3_dense_degree: float = setting(30.0, "Above so many facts per entity n3 is smaller.", gt=0)
    n3_degree_power: float = setting(0.68, "The exponent of that scale.", ge=0)
    n3_max_scale: float = setting(2.0, "The largest scale of n3.", ge=1)
    l2: float = setting(0.0, "Weight of the L2 penalty on the rows of a batch.", ge=0)
    parameter_averaging: bool = setting(
        False, "Answer with a running mean of the parameters over steps."
    )
    averaging_decay: float = setting(
        9.0, "η: the mean covers about the last 1/(1 + η) of all steps.", ge=0
    )
    adam_beta1: float = setting(0.9, "Decay of Adam's first moment.", ge=0, lt=1)
    adam_beta2: float = setting(0.999, "Decay of Adam's second moment.", ge=0, lt=1)
    backend: Literal["auto", "numba", "torch"] = setting("auto", COMMON["backend"].text)
    device: str = setting("cpu", COMMON["device"].text)


class MethodConfig(Section):
    """The settings that only one method has. A method without any uses this class itself."""

    also_uses: ClassVar[frozenset[str]] = frozenset()
    """Settings of `training` that the method uses, whatever the loss."""

    name: str = setting("", COMMON["method"].text)


METHOD_CONFIGS: dict[str, type[MethodConfig]] = {}
"""Method → the class of its settings; `lkge.methods.register` fills it."""


class RunConfig(BaseModel):
    """Everything that decides the outcome of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    dataset: DatasetConfig = DatasetConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    method: SerializeAsAny[MethodConfig] = MethodConfig(name="lkge")

    def with_changes(
        self, changes: Mapping[str, Any] = MappingProxyType({}), /, **more: Any
    ) -> Self:
        """A copy with some settings replaced. A name is `section.name`, or `name` alone where one
        section has it; `dataset` and `method` alone are the names of these. Another method begins
        with the defaults of its own settings."""
        changes = {**changes, **more}
        base = self._of_method(changes.get("method", changes.get("method.name", self.method.name)))
        parts: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
        for key, value in changes.items():
            section, name = base.place(key)
            parts[section][name] = value
        changed = base.model_copy(
            update={
                section: _changed(getattr(base, section), values, section)
                for section, values in parts.items()
                if values
            }
        )
        for key in changes:
            changed._require_used(key)
        return changed

    def place(self, key: str) -> tuple[str, str]:
        """The section and the name of a setting."""
        if key in ("dataset", "method"):
            return key, "name"
        section, dot, name = key.partition(".")
        if dot:
            if section in SECTIONS and name in self._fields(section):
                return section, name
        else:
            found = [each for each in SECTIONS if key != "name" and key in self._fields(each)]
            if found:
                return found[0], key
        raise SettingsError(self._unknown(key))

    def has(self, key: str) -> bool:
        """Whether this run has a setting of that name."""
        with suppress(SettingsError):
            return bool(self.place(key))
        return False

    def get(self, key: str) -> Any:
        """The value of a setting, by a name as `with_changes` takes it."""
        section, name = self.place(key)
        return getattr(getattr(self, section), name)

    def uses(self, key: str) -> bool:
        """Whether a setting has an effect with the loss and the method of this run."""
        section, name = self.place(key)
        losses = losses_of(type(getattr(self, section)), name)
        return self.training.loss in losses or name in self.method.also_uses

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Section by section, for JSON; only settings that have an effect."""
        return {
            section: {
                name: value
                for name, value in getattr(self, section)
                if self.uses(f"{section}.{name}")
            }
            for section in SECTIONS
        }

    def flat(self) -> dict[str, Any]:
        """The same by `section.name`."""
        tree = self.to_dict()
        return {f"{part}.{name}": v for part, values in tree.items() for name, v in values.items()}

    def to_toml(self) -> str:
        """The same as TOML; `lkge.configure.read_toml` reads it back."""
        return "\n".join(
            "".join([f"[{section}]\n", *(f"{n} = {literal(v)}\n" for n, v in values.items())])
            for section, values in self.to_dict().items()
        )

    def _of_method(self, name: object) -> Self:
        """The same with another method and its defaults."""
        if name == self.method.name:
            return self
        if not isinstance(name, str) or name not in METHOD_CONFIGS:
            raise SettingsError(f"method = {name!r}: no such method; `lkge methods` lists all")
        return self.model_copy(update={"method": METHOD_CONFIGS[name](name=name)})

    def _fields(self, section: str) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = type(getattr(self, section)).model_fields
        return fields

    def _require_used(self, key: str) -> None:
        """A setting that the chosen loss does not have is an error."""
        if not self.uses(key):
            section, name = self.place(key)
            losses = " and ".join(losses_of(type(getattr(self, section)), name))
            raise SettingsError(
                f"{section}.{name} has no effect with training.loss = {self.training.loss!r}: it "
                f"belongs to {losses}; leave it out or choose that loss"
            )

    def _unknown(self, key: str) -> str:
        """The error for a setting that this run does not have: which methods have it, if any."""
        name, method = key.removeprefix("method."), self.method.name
        kinds = sorted(METHOD_CONFIGS.items())
        owners = [each for each, kind in kinds if name in kind.model_fields]
        own = [each for each in self._fields("method") if each != "name"]
        if not owners and (near := self._near(key)):
            return f"no setting {key!r} for method {method!r}.{near}"
        whose = f"it belongs to {', '.join(owners)}; " if owners and name != "name" else ""
        return (
            f"no setting {key!r} for method {method!r}: {whose}{method} has "
            f"{', '.join(own) or 'none of its own'}; `lkge methods show {method}` lists them"
        )

    def _near(self, key: str) -> str:
        """A question after the settings of this run whose names are most similar."""
        known = [f"{section}.{name}" for section in SECTIONS for name in self._fields(section)]
        names = [name.partition(".")[2] for name in known]
        return did_you_mean([known[at] for at in most_similar(key.rpartition(".")[2], names)])


def losses_of(section: type[BaseModel], name: str) -> Losses:
    """The losses that use a setting."""
    return tuple(_extra(section, name).get("losses", LOSSES))


def _extra(section: type[BaseModel], name: str) -> Mapping[str, Any]:
    extra = section.model_fields[name].json_schema_extra
    return extra if isinstance(extra, dict) else MappingProxyType({})


def _changed(part: Section, values: Mapping[str, Any], section: str) -> Section:
    """A section with other values, checked."""
    try:
        return type(part).model_validate({**part.model_dump(), **values})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join([section, *(str(each) for each in first["loc"])])
        shown = repr(first["input"])
        shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
        raise SettingsError(f"{name} = {shown}: {first['msg']}") from error


def literal(value: object) -> str:
    """A text, number or boolean as TOML: JSON, but DEL must be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007f")
