from __future__ import annotations

import dataclasses
import math
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import config as hypothesis_settings
from hypothesis import given
from hypothesis import strategies as st

from lkge.config import (
    BACKENDS,
    EVERGREEN,
    LIVING,
    LIVING_PRESETS,
    OBJECTIVES,
    OMEGAS,
    OPTIMIZERS,
    PRESETS,
    RunConfig,
    config_or_preset,
    configure,
    read_toml,
)
from lkge.errors import SettingsError
from lkge.testing import paper_config

CHOICES: dict[str, Any] = {
    "optimizer": st.sampled_from(OPTIMIZERS),
    "loss": st.sampled_from(OBJECTIVES),
    "regularization_form": st.sampled_from(OMEGAS),
    "backend": st.sampled_from(BACKENDS),
    "replay_share": st.floats(min_value=0, max_value=1),
    "candidate_fraction": st.floats(min_value=0, max_value=1, exclude_min=True),
    "label_smoothing": st.floats(min_value=0, max_value=1, exclude_max=True),
}
LEAST = {"seed": 0}
BY_TYPE: dict[type, Any] = {
    str: st.text(),
    bool: st.booleans(),
    float: st.floats(min_value=0, exclude_min=True, allow_infinity=False),
}


def values_of(name: str, kind: type) -> Any:
    """All values that a field may have."""
    if name in CHOICES:
        return CHOICES[name]
    return st.integers(LEAST.get(name, 1), 2**62) if kind is int else BY_TYPE[kind]


FIELDS = get_type_hints(RunConfig)
ANY_SETTINGS = st.builds(RunConfig, **{name: values_of(name, FIELDS[name]) for name in FIELDS})


@given(ANY_SETTINGS)
def test_toml_reads_back_what_was_written(config: RunConfig) -> None:
    assert tomllib.loads(config.to_toml()) == config.to_dict()
    assert paper_config().with_changes(tomllib.loads(config.to_toml())) == config


@given(config=ANY_SETTINGS)
@hypothesis_settings(max_examples=20)
def test_the_file_does_too(tmp_path_factory: pytest.TempPathFactory, config: RunConfig) -> None:
    path = tmp_path_factory.getbasetemp() / "config.toml"
    path.write_text(config.to_toml(), encoding="utf-8")
    assert read_toml(path) == config


def test_types_survive() -> None:
    config = paper_config().with_changes({"margin": 3, "dim": 7})
    assert type(config.training.margin) is float
    again = paper_config().with_changes(tomllib.loads(config.to_toml()))
    assert [type(value) for value in again.to_dict().values()] == list(FIELDS.values())


@pytest.mark.parametrize(
    "text", ['a"b', "a\\b", "a\nb", "a\tb", "\x00\x1f\x7f", "é⁻¹😀", '\' """ ']
)
def test_awkward_text_survives(text: str) -> None:
    assert tomllib.loads(paper_config(dataset=text).to_toml())["dataset"] == text


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        ({"dim": 0}, ["dim = 0", "at least 1"]),
        ({"batch_size": -1}, ["batch_size", "at least 1"]),
        ({"negatives": 0}, ["negatives"]),
        ({"negatives_shared_by": 0}, ["sharing = 0", "at least 1"]),
        ({"max_epochs": 0}, ["max_epochs"]),
        ({"patience": 0}, ["patience"]),
        ({"seed": -1}, ["seed", "zero or more"]),
        ({"regularization_weight": -0.1}, ["alpha"]),
        ({"autoencoder_weight": -1.0}, ["beta"]),
        ({"margin": -1.0}, ["margin"]),
        ({"learning_rate": 0.0}, ["learning_rate", "above zero"]),
        ({"learning_rate": math.inf}, ["learning_rate", "finite"]),
        ({"regularization_weight": math.nan}, ["alpha"]),
        ({"margin": math.inf}, ["margin", "finite"]),
        ({"optimizer": "sgd"}, ["optimizer", "'sgd'", "adam or adagrad"]),
        ({"loss": "hinge"}, ["objective", "margin, softmax, sampled"]),
        ({"adversarial_temperature": -1.0}, ["adversarial", "zero or more"]),
        ({"replay_share": 1.5}, ["told", "from 0 to 1"]),
        ({"replay_share": math.nan}, ["told"]),
        ({"candidate_fraction": 0.0}, ["rivals", "above 0"]),
        ({"candidate_fraction": 1.1}, ["rivals", "1 at most"]),
        ({"candidate_fraction": math.nan}, ["rivals"]),
        ({"label_smoothing": -0.1}, ["label_smoothing", "zero or more"]),
        ({"label_smoothing": 1.0}, ["label_smoothing", "below 1"]),
        ({"label_smoothing": math.nan}, ["label_smoothing"]),
        ({"relation_prediction_weight": -1.0}, ["relation_weight", "zero or more"]),
        ({"n3": -0.1}, ["n3", "zero or more"]),
        ({"n3": math.inf}, ["n3", "finite"]),
        ({"l2": math.nan}, ["l2"]),
        ({"regularization_form": "cubed"}, ["omega", "'cubed'", "printed or squared"]),
        ({"backend": "jax"}, ["backend", "numba"]),
    ],
)
def test_out_of_range(change: dict[str, Any], fragments: list[str]) -> None:
    for make in (paper_config().with_changes, lambda changes: paper_config(**changes)):
        with pytest.raises(SettingsError) as caught:
            make(change)
        assert all(fragment in str(caught.value) for fragment in fragments)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"dim": "200"}, "int"),
        ({"dim": 200.0}, "int"),
        ({"dim": True}, "int"),
        ({"margin": "8"}, "float"),
        ({"margin": True}, "float"),
        ({"transfer": 1}, "bool"),
        ({"method": 3}, "str"),
        ({"seed": None}, "int"),
    ],
)
def test_wrong_type(change: dict[str, Any], kind: str) -> None:
    with pytest.raises(SettingsError, match=rf"{next(iter(change))} = .* must be of type {kind}"):
        paper_config().with_changes(change)


def test_unknown_key() -> None:
    with pytest.raises(SettingsError, match=r"unknown setting 'dimension'.*dim, batch_size"):
        paper_config().with_changes({"dimension": 3})


def test_changes_outweigh_the_settings_that_they_change() -> None:
    base = paper_config(seed=1, patience=9)
    assert base.with_changes({"dim": 40, "seed": 5}) == paper_config(dim=40, seed=5, patience=9)
    assert base == paper_config(seed=1, patience=9)


def test_what_a_file_leaves_out_is_the_papers_whatever_its_method(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("dim = 30\nmethod = 'evergreen'\n", encoding="utf-8")
    assert read_toml(path) == paper_config(dim=30, method="evergreen")


RE_TRAIN = {"method": "re-train"}
RULE = [
    (None, {}, EVERGREEN),
    (None, {"method": "evergreen"}, EVERGREEN),
    (None, {"method": "evergreen", "dim": 8}, {**EVERGREEN, "dim": 8}),
    (None, {"dim": 8, "transfer": True}, {**EVERGREEN, "dim": 8, "transfer": True}),
    (None, {"method": "lkge"}, {}),
    (None, RE_TRAIN, RE_TRAIN),
    (None, {"method": "of another package"}, {"method": "of another package"}),
    ("evergreen", {}, EVERGREEN),
    ("evergreen", RE_TRAIN, {**EVERGREEN, **RE_TRAIN}),
    ("paper", {}, {}),
    ("paper", {"method": "evergreen"}, {"method": "evergreen"}),
    ("paper", {"dim": 8}, {"dim": 8}),
]


@pytest.mark.parametrize(("preset", "changes", "expected"), RULE)
def test_the_preset_is_the_one_that_is_named_or_that_of_the_method(
    preset: str | None, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert configure(changes, preset) == paper_config().with_changes(expected)


def test_the_preset_of_the_paper_is_its_lkge() -> None:
    assert configure({}, "paper") == paper_config(method="lkge") == paper_config()


FEW = LIVING_PRESETS["evergreen"]


@pytest.mark.parametrize(
    ("preset", "changes", "expected"),
    [
        (None, {}, {**EVERGREEN, **FEW}),
        (None, {"method": "lkge"}, LIVING),
        (None, RE_TRAIN, {**LIVING, **RE_TRAIN}),
        (None, {"method": "evergreen"}, {**EVERGREEN, **FEW}),
        ("paper", {}, LIVING),
        ("paper", {"batch_size": 7}, {**LIVING, "batch_size": 7}),
        ("evergreen", {}, {**EVERGREEN, **FEW}),
        ("evergreen", RE_TRAIN, {**EVERGREEN, **FEW, **RE_TRAIN}),
        ("evergreen", {"batch_size": 7}, {**EVERGREEN, **FEW, "batch_size": 7}),
    ],
)
def test_a_living_graph_is_evergreen_unless_another_is_named(
    preset: str | None, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert configure(changes, preset, living=True) == paper_config().with_changes(expected)


def test_every_preset_has_differences_for_living_graphs() -> None:
    assert set(LIVING_PRESETS) == set(PRESETS)


@pytest.mark.parametrize("preset", ["papers", "lkge", ""])
def test_an_unknown_preset_names_those_that_are_known(preset: str) -> None:
    with pytest.raises(SettingsError, match=f"no preset '{preset}'; known are: evergreen, paper"):
        configure({}, preset)


def test_settings_and_a_preset_exclude_each_other() -> None:
    assert config_or_preset(paper_config(seed=5), {"dim": 8}, None) == paper_config(seed=5, dim=8)
    assert config_or_preset(None, {"dim": 8}, "paper") == paper_config(dim=8)
    with pytest.raises(SettingsError, match="preset 'paper'; leave it out"):
        config_or_preset(paper_config(), {}, "paper")


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"dim = 0\n", "dim = 0"),
        (b"dim = '3'\n", "must be of type int"),
        (b"dimension = 3\n", "unknown setting 'dimension'"),
        (b"[model]\ndim = 3\n", "unknown setting 'model'"),
        (b"dim == 3\n", "not valid TOML"),
        (b"dim = 3\ndim = 4\n", "not valid TOML"),
        (b"dataset = '\xff'\n", "not valid TOML"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes, fragment: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert fragment in str(caught.value)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml: cannot be read: No such file"):
        read_toml(tmp_path / "absent.toml")


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.touch()
    assert read_toml(path) == paper_config()


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        paper_config().dim = 3  # type: ignore[misc]
