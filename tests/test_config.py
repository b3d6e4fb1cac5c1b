"""`lkge.config` and `lkge.configure`: sections, presets, changes, files, one set of defaults."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import hypothesis
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import lkge
from lkge.cli import app
from lkge.config import LOSSES, SECTIONS, RunConfig, Section, TrainingConfig, losses_of
from lkge.configure import (
    EVERGREEN,
    LIVING,
    LIVING_PAPER,
    OLD_NAMES,
    PRESETS,
    changes_in,
    configure,
    flat_config,
    for_living,
    from_tree,
    read_toml,
    with_method,
)
from lkge.errors import SettingsError, UnknownName
from lkge.methods import METHODS
from lkge.testing import paper_config
from lkge.testing.graphs import growing_graph

BUILT_IN = sorted(METHODS)


def sections_of(config: RunConfig) -> Iterator[tuple[str, type[Section]]]:
    for section in SECTIONS:
        yield section, type(getattr(config, section))


def values_of(field: pydantic.fields.FieldInfo) -> st.SearchStrategy[Any]:
    """All values that a setting may have, by its type and its bounds."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if kind in (str, bool):
        return st.text() if kind is str else st.booleans()
    bounds = {
        name: getattr(each, name)
        for each in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if hasattr(each, name)
    }
    low, high = bounds.get("ge", bounds.get("gt", 0)), bounds.get("le", bounds.get("lt"))
    if kind is int:
        return st.integers(low, 2**62)
    return st.floats(
        low, high, exclude_min="gt" in bounds, exclude_max="lt" in bounds, allow_infinity=False
    )


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    """Any method and any loss, with any value of each setting that has an effect."""
    method, loss = draw(st.sampled_from(BUILT_IN)), draw(st.sampled_from(LOSSES))
    base = with_method(method).with_changes(loss=loss)
    used = base.flat()
    changes = {
        f"{section}.{name}": draw(values_of(field))
        for section, kind in sections_of(base)
        for name, field in kind.model_fields.items()
        if f"{section}.{name}" in used and (section, name) != ("method", "name")
    }
    return base.with_changes({**changes, "training.loss": loss})


class TestToml:
    @given(configs())
    def test_reads_back_what_was_written(self, config: RunConfig) -> None:
        assert tomllib.loads(config.to_toml()) == config.to_dict()
        assert from_tree(tomllib.loads(config.to_toml())) == config

    @given(config=configs())
    @hypothesis.settings(max_examples=20)
    def test_a_file_does_too(
        self, tmp_path_factory: pytest.TempPathFactory, config: RunConfig
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "config.toml"
        path.write_text(config.to_toml(), encoding="utf-8")
        assert read_toml(path) == config
        assert configure(changes_in(path)).flat() == config.flat()

    def test_has_a_section_for_each_part(self) -> None:
        tree = tomllib.loads(configure().to_toml())
        assert tuple(tree) == SECTIONS
        assert tree["dataset"] == {"name": "brick"}
        assert tree["model"] == {"score": "complex", "dim": 200}
        assert (tree["method"]["name"], tree["method"]["replay_weight"]) == ("evergreen", 2.0)

    def test_leaves_out_the_settings_of_other_losses(self) -> None:
        assert "margin" not in configure().to_dict()["training"]
        assert "candidate_fraction" not in paper_config().to_dict()["training"]
        assert paper_config(method="dicgrl", loss="softmax").to_dict()["training"]["margin"] == 8.0

    def test_types_survive(self) -> None:
        config = paper_config().with_changes({"margin": 3, "dim": 7})
        assert type(config.training.margin) is float
        again = from_tree(tomllib.loads(config.to_toml()))
        assert [type(v) for v in again.flat().values()] == [type(v) for v in config.flat().values()]

    @pytest.mark.parametrize(
        "text", ['a"b', "a\\b", "a\nb", "a\tb", "\x00\x1f\x7f", "é⁻¹😀", '\' """ ']
    )
    def test_awkward_text_survives(self, text: str) -> None:
        assert tomllib.loads(paper_config(dataset=text).to_toml())["dataset"]["name"] == text

    def test_what_a_file_leaves_out_is_the_class_default(self, tmp_path: Path) -> None:
        path = tmp_path / "my.toml"
        path.write_text("[model]\ndim = 30\n[method]\nname = 'evergreen'\n", encoding="utf-8")
        assert read_toml(path) == with_method("evergreen").with_changes(dim=30)
        path.write_text("", encoding="utf-8")
        assert read_toml(path) == paper_config()

    @pytest.mark.parametrize(
        ("content", "fragment"),
        [
            (b"[model]\ndim = 0\n", "model.dim = 0"),
            (b"[model]\ndim = '3'\n", "model.dim = '3'"),
            (b"[model]\ndimension = 3\n", "no setting 'model.dimension'"),
            (b"[modell]\ndim = 3\n", "'modell' is not a section"),
            (b"dim = 0\n", "model.dim = 0"),
            (b"dimension = 3\n", "unknown setting 'dimension'"),
            (b"dim = 3\n[training]\nseed = 1\n", "unknown setting 'training'"),
            (b"dim == 3\n", "not valid TOML"),
            (b"dim = 3\ndim = 4\n", "not valid TOML"),
            (b"dataset = '\xff'\n", "not valid TOML"),
        ],
    )
    def test_a_bad_file_is_named(self, tmp_path: Path, content: bytes, fragment: str) -> None:
        path = tmp_path / "bad.toml"
        path.write_bytes(content)
        with pytest.raises(SettingsError) as caught:
            read_toml(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert fragment in str(caught.value)

    def test_an_absent_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"absent\.toml: cannot be read: No such file"):
            read_toml(tmp_path / "absent.toml")


class TestChanges:
    def test_outweigh_the_config_that_they_change(self) -> None:
        base = paper_config(seed=1, patience=9)
        assert base.with_changes({"dim": 40, "seed": 5}) == paper_config(dim=40, seed=5, patience=9)
        assert base.with_changes({"dim": 40}, seed=5) == base.with_changes(dim=40, seed=5)
        assert base == paper_config(seed=1, patience=9)

    @pytest.mark.parametrize("name", configure().flat())
    def test_a_name_is_with_its_section_or_without(self, name: str) -> None:
        section, _, alone = name.partition(".")
        short = section if alone == "name" else alone
        config = configure()
        assert config.place(short) == config.place(name) == (section, alone)
        assert config.get(short) == config.get(name) == config.flat()[name]

    def test_another_method_brings_its_own_settings(self) -> None:
        config = paper_config(regularization_weight=0.5, dim=8)
        assert config.with_changes(method="gem") == paper_config(method="gem", dim=8)
        changed = config.with_changes({"memory_size": 3, "method": "gem"})
        assert changed == paper_config(method="gem", memory_size=3, dim=8)
        with pytest.raises(SettingsError, match="'gemm': no such method"):
            config.with_changes(method="gemm")

    def test_configs_are_frozen(self) -> None:
        for change in (lambda c: setattr(c, "model", None), lambda c: setattr(c.model, "dim", 3)):
            with pytest.raises(pydantic.ValidationError, match="frozen"):
                change(paper_config())

    @pytest.mark.parametrize(
        ("change", "fragments"),
        [
            ({"dim": 0}, ["model.dim = 0", "greater than or equal to 1"]),
            ({"batch_size": -1}, ["training.batch_size = -1"]),
            ({"negatives": 0}, ["training.negatives"]),
            ({"negatives_shared_by": 0}, ["training.negatives_shared_by"]),
            ({"max_epochs": 0}, ["training.max_epochs"]),
            ({"patience": 0}, ["training.patience"]),
            ({"seed": -1}, ["training.seed", "greater than or equal to 0"]),
            ({"regularization_weight": -0.1}, ["method.regularization_weight"]),
            ({"regularization_weight": math.nan}, ["method.regularization_weight", "finite"]),
            ({"autoencoder_weight": -1.0}, ["method.autoencoder_weight"]),
            ({"margin": -1.0}, ["training.margin"]),
            ({"margin": math.inf}, ["training.margin", "finite"]),
            ({"learning_rate": 0.0}, ["training.learning_rate", "greater than 0"]),
            ({"learning_rate": math.inf}, ["training.learning_rate", "finite"]),
            ({"optimizer": "sgd"}, ["training.optimizer", "'sgd'", "'adam' or 'adagrad'"]),
            ({"loss": "hinge"}, ["training.loss", "'margin', 'softmax' or 'sampled'"]),
            ({"adversarial_temperature": -1.0}, ["training.adversarial_temperature"]),
            ({"loss": "softmax", "candidate_fraction": 0.0}, ["candidate_fraction"]),
            ({"loss": "softmax", "candidate_fraction": 1.1}, ["less than or equal to 1"]),
            ({"loss": "softmax", "label_smoothing": 1.0}, ["label_smoothing", "less than 1"]),
            ({"method": "evergreen", "replay_share": 1.5}, ["method.replay_share"]),
            ({"n3": math.inf}, ["training.n3", "finite"]),
            ({"l2": math.nan}, ["training.l2"]),
            ({"regularization_form": "cubed"}, ["'cubed'", "'linear' or 'squared'"]),
            ({"backend": "jax"}, ["training.backend", "'numba'"]),
            ({"dim": "200"}, ["model.dim = '200'", "valid integer"]),
            ({"dim": 200.0}, ["model.dim = 200.0", "valid integer"]),
            ({"dim": True}, ["model.dim = True", "valid integer"]),
            ({"seed": None}, ["training.seed = None"]),
            ({"margin": "8"}, ["training.margin = '8'", "valid number"]),
            ({"margin": True}, ["training.margin = True"]),
            ({"transfer": 1}, ["method.transfer = 1", "valid boolean"]),
            ({"dataset": 3}, ["dataset.name = 3", "valid string"]),
        ],
    )
    def test_a_value_that_cannot_be_is_an_error(
        self, change: dict[str, Any], fragments: list[str]
    ) -> None:
        for make in (paper_config().with_changes, lambda changes: configure(changes, "paper")):
            with pytest.raises(SettingsError) as caught:
                make(change)
            assert all(fragment in str(caught.value) for fragment in fragments)


class TestUnknown:
    @pytest.mark.parametrize(
        ("method", "key", "owners"),
        [
            ("lkge", "memory_size", "dicgrl, emr, gem"),
            ("lkge", "method.memory_size", "dicgrl, emr, gem"),
            ("evergreen", "regularization_weight", "ewc, lkge, si"),
            ("fine-tune", "components", "dicgrl"),
            ("ewc", "replay_weight", "evergreen"),
        ],
    )
    def test_a_setting_of_another_method_names_the_methods_that_have_it(
        self, method: str, key: str, owners: str
    ) -> None:
        for make in (configure({"method": method}).with_changes, configure):
            with pytest.raises(SettingsError) as caught:
                make({"method": method, key: 1})
            text = str(caught.value)
            assert f"no setting {key!r} for method {method!r}: it belongs to {owners};" in text
            assert f"`lkge methods show {method}`" in text

    @pytest.mark.parametrize(
        ("key", "near"),
        [
            ("dimension", "model.dim"),
            ("model.seed", "training.seed"),
            ("training.batchsize", "training.batch_size"),
            ("Training.Seed", "training.seed"),
            ("BATCH_SIZE", "training.batch_size"),
        ],
    )
    def test_a_setting_with_a_similar_name_says_so(self, key: str, near: str) -> None:
        message = f"no setting '{key}' for method 'si'. Did you mean '{near}'"
        with pytest.raises(SettingsError, match=re.escape(message)):
            configure({"method": "si", key: 3})

    @pytest.mark.parametrize("key", ["training.foo", "name", "a.b.c"])
    def test_a_setting_that_nothing_has_names_those_of_the_method(self, key: str) -> None:
        with pytest.raises(SettingsError) as caught:
            configure({"method": "si", key: 3})
        assert f"no setting {key!r} for method 'si': si has regularization_weight, damping;" in (
            str(caught.value)
        )
        assert not configure().has(key)

    @pytest.mark.parametrize("method", BUILT_IN)
    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_setting_of_another_loss_is_an_error(self, method: str, loss: str) -> None:
        config = with_method(method).with_changes(loss=loss)
        for name in TrainingConfig.model_fields:
            losses = losses_of(TrainingConfig, name)
            value = config.get(name)
            if loss in losses or name in config.method.also_uses:
                assert config.with_changes({name: value}) == config
                continue
            with pytest.raises(SettingsError, match=f"training.{name} has no effect with") as at:
                config.with_changes({name: value})
            assert f"it belongs to {' and '.join(losses)}" in str(at.value)
            assert config.with_changes({"loss": losses[0], name: value}).training.loss == losses[0]

    @pytest.mark.parametrize("method", ["lkgee", 3, ""])
    def test_an_unknown_method(self, method: Any) -> None:
        with pytest.raises((UnknownName, SettingsError), match=repr(method)):
            configure({"method": method})

    @pytest.mark.parametrize("preset", ["papers", "lkge", ""])
    def test_an_unknown_preset_names_those_that_are_known(self, preset: str) -> None:
        with pytest.raises(SettingsError, match=f"no preset '{preset}'; known are: evergreen, pap"):
            configure({}, preset)


def differences(config: RunConfig, base: RunConfig) -> set[str]:
    """The settings in which two configs of the same method differ, without their section."""
    of_both = {**base.flat(), **config.flat()}
    return {name.partition(".")[2] for name in of_both if config.get(name) != base.get(name)}


class TestPresets:
    def test_the_class_defaults_are_the_preset_of_the_paper(self) -> None:
        assert configure({}, "paper") == with_method("lkge") == RunConfig(method=lkge_section())
        for method in BUILT_IN:
            assert configure({"method": method}, "paper") == with_method(method)

    def test_evergreen_differs_from_the_class_defaults_only_in_the_base_model(self) -> None:
        config, base = configure(), with_method("evergreen")
        same = {name for name, value in EVERGREEN.items() if base.get(name) == value}
        assert differences(config, base) == EVERGREEN.keys() - same
        assert same == {"method", "dim"}
        assert config.method == base.method

    def test_living_differs_from_evergreen_only_in_the_named_fields(self) -> None:
        living = configure({}, "living")
        assert differences(living, configure({}, "evergreen")) == set(LIVING)
        assert {name: living.get(name) for name in LIVING} == LIVING

    def test_living_paper_differs_from_paper_only_in_the_named_fields(self) -> None:
        living = configure({}, "living-paper")
        named = set(LIVING_PAPER) - {"method"}
        assert differences(living, configure({}, "paper")) == named
        assert {name: living.get(name) for name in LIVING_PAPER} == LIVING_PAPER

    @pytest.mark.parametrize(
        ("changes", "living", "preset"),
        [
            ({}, False, "evergreen"),
            ({"method": "evergreen"}, False, "evergreen"),
            ({"method": "evergreen", "dim": 8}, False, "evergreen"),
            ({"method.name": "lkge"}, False, "paper"),
            ({"method": "lkge"}, False, "paper"),
            ({"method": "re-train"}, False, "paper"),
            ({}, True, "living"),
            ({"method": "evergreen", "dim": 8}, True, "living"),
            ({"method": "lkge", "batch_size": 7}, True, "living-paper"),
            ({"method": "re-train"}, True, "living-paper"),
        ],
    )
    def test_without_a_name_it_is_that_of_the_method(
        self, changes: dict[str, Any], living: bool, preset: str
    ) -> None:
        chosen = configure(changes, living=living)
        assert chosen == configure(changes, preset)
        assert all(chosen.get(name) == value for name, value in changes.items())

    def test_the_base_model_of_a_preset_goes_with_any_method(self) -> None:
        config = configure({"method": "re-train"}, "evergreen")
        assert config.training == configure().training
        assert config.method == with_method("re-train").method

    @pytest.mark.parametrize("method", BUILT_IN)
    @pytest.mark.parametrize("preset", PRESETS)
    def test_every_method_has_every_preset(self, method: str, preset: str) -> None:
        config = configure({"method": method}, preset)
        assert config.method.name == method
        for name, value in PRESETS[preset].items():
            if name != "method" and config.has(name):
                assert config.get(name) == value

    def test_a_config_and_a_preset_exclude_each_other(self) -> None:
        config = configure({"dim": 8}, config=paper_config(seed=5))
        assert config == paper_config(seed=5, dim=8)
        assert configure({"dim": 8}, "paper") == paper_config(dim=8)
        with pytest.raises(SettingsError, match="preset 'paper'; leave one of them out"):
            configure({}, "paper", config=paper_config())

    def test_a_run_goes_on_as_a_living_graph(self) -> None:
        assert for_living(configure()) == configure({}, "living")
        run = paper_config(regularization_weight=0.5, dim=8)
        expected = configure({"dim": 8, "regularization_weight": 0.5}, "living-paper")
        assert for_living(run) == expected.with_changes(autoencoder_weight=0.1)


def lkge_section() -> Any:
    return METHODS["lkge"].Config(name="lkge")


class Captured(Exception):
    """Ends `lkge.run` before it learns; holds its config."""


class TestOneSourceOfDefaults:
    """The command line, the Python API and `configure` give the same config."""

    @pytest.mark.parametrize("preset", [None, *PRESETS])
    @pytest.mark.parametrize("changes", [{}, {"method": "lkge"}, {"method": "gem", "dim": 8}])
    def test_of_a_run(
        self, monkeypatch: pytest.MonkeyPatch, preset: str | None, changes: dict[str, Any]
    ) -> None:
        def stop(config: RunConfig, *_: object) -> None:
            raise Captured(config)

        monkeypatch.setattr("lkge.api.warm_up", stop)
        expected = configure({"dataset": "brick", **changes}, preset)
        graph = growing_graph()
        with pytest.raises(Captured) as caught:
            lkge.run(graph, preset=preset, **{"dataset": "brick", **changes})
        assert caught.value.args == (expected,)

        monkeypatch.setattr("lkge.api.load", lambda *_: graph)
        monkeypatch.setattr("lkge.api.run", lambda _, *, config, **others: stop(config))
        words = [word for name, value in changes.items() for word in (f"--{name}", str(value))]
        words += ["--preset", preset] if preset else []
        done = CliRunner().invoke(app, ["run", *words])
        assert isinstance(done.exception, Captured)
        assert done.exception.args == (expected,)

    @pytest.mark.parametrize("preset", [None, *PRESETS])
    @pytest.mark.parametrize("changes", [{}, {"method": "lkge"}, {"method": "gem", "dim": 8}])
    def test_of_a_living_graph(
        self, tmp_path: Path, preset: str | None, changes: dict[str, Any]
    ) -> None:
        expected = configure(changes, preset, living=True)
        assert lkge.init(tmp_path / "python", preset=preset, **changes).config == expected
        words = [word for name, value in changes.items() for word in (f"--{name}", str(value))]
        words += ["--preset", preset] if preset else []
        done = CliRunner().invoke(app, ["init", str(tmp_path / "cli"), "--json", *words])
        assert json.loads(done.stdout)["settings"] == expected.to_dict()
        assert lkge.open(tmp_path / "cli").config == expected


OLD_BAG = {
    "alpha": 0.25,
    "beta": 0.75,
    "omega": "squared",
    "distillation": 1.0,
    "told": 0.5,
    "heart": False,
    "questions": 600,
    "profile": False,
    "carried_sums": False,
    "memory": 50,
    "neighbours": 9,
    "objective": "softmax",
    "rivals": 0.3,
    "relation_weight": 0.5,
    "sparse_n3": True,
    "least_gain": 0.125,
    "averaging": True,
    "components": 4,
    "active_components": 2,
    "fine_tuning": False,
    "autoencoder": False,
    "transfer": False,
    "regularization": False,
}
"""A file of release 0.1 had the settings of all methods."""


class TestRelease01:
    """Flat files: no sections, and other names."""

    @pytest.mark.parametrize("method", BUILT_IN)
    def test_old_names_are_read_and_those_of_other_methods_are_left_out(self, method: str) -> None:
        config = from_tree({"method": method, "dim": 8, **OLD_BAG})
        assert (config.method.name, config.model.dim, config.training.loss) == (
            *(method, 8),
            "softmax",
        )
        expected = {OLD_NAMES.get(name, name): value for name, value in OLD_BAG.items()}
        expected["memory"] = "generative" if OLD_BAG["profile"] else "none"
        found = {name: value for name, value in expected.items() if config.has(name)}
        assert {name: config.get(name) for name in found} == found

    def test_every_old_name_is_a_setting_of_some_method(self) -> None:
        for name in OLD_NAMES.values():
            assert any(with_method(method).has(name) for method in BUILT_IN), name

    @pytest.mark.parametrize(
        ("tree", "name", "value"),
        [
            ({"sharing": 4}, "negatives_shared_by", 4),
            ({"adversarial": 0.5}, "adversarial_temperature", 0.5),
            ({"objective": "sampled", "adversarial": 0.5}, "adversarial_temperature", 0.5),
            ({"omega": "printed"}, "regularization_form", "linear"),
            ({"margin": 2}, "margin", 2.0),
        ],
    )
    def test_a_value_is_kept(self, tree: dict[str, Any], name: str, value: object) -> None:
        assert from_tree(tree).get(name) == value

    def test_settings_of_another_loss_are_left_out(self) -> None:
        config = from_tree({"objective": "softmax", "margin": 2.0, "negatives": 3})
        assert config == paper_config(loss="softmax")

    def test_a_loss_that_does_not_exist_is_an_error(self) -> None:
        with pytest.raises(SettingsError, match=r"training\.loss = 'hinge'"):
            from_tree({"objective": "hinge"})

    def test_a_name_that_never_was_is_an_error(self) -> None:
        for name in ("dimension", "replay_weight", "model"):
            with pytest.raises(SettingsError, match=f"unknown setting '{name}'"):
                from_tree({name: 3})

    def test_a_flat_file_gives_the_changes_that_it_names(self, tmp_path: Path) -> None:
        path = tmp_path / "my.toml"
        path.write_text("dim = 30\ndistillation = 1.5\nalpha = 0.5\n", encoding="utf-8")
        assert changes_in(path) == {"model.dim": 30, "method.replay_weight": 1.5}
        path.write_text("method = 'ewc'\nalpha = 0.5\n", encoding="utf-8")
        assert changes_in(path) == {"method.name": "ewc", "method.regularization_weight": 0.5}

    def test_results_of_any_method_have_flat_settings(self) -> None:
        assert (
            flat_config({"method": "ewc", "alpha": 0.5})
            == paper_config(method="ewc", regularization_weight=0.5).flat()
        )
        other = {"method": {"name": "of another package", "x": 1}, "model": {"dim": 3}}
        assert flat_config(other) == {
            "method.name": "of another package",
            "method.x": 1,
            "model.dim": 3,
        }
