"""A study is data, and the paper's is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.studies.made import small_study

from lkge.configure import EVERGREEN, configure
from lkge.errors import LkgeError, SettingsError, UnknownName
from lkge.methods import METHODS
from lkge.models.scores import SCORES as BASES
from lkge.studies.study import listed, listed_seeds, read_study, short_name, study_named

PAPER, BEYOND, SCORES = map(study_named, ("paper", "beyond", "scores"))
ABLATIONS = {
    "lkge:no-fine-tuning": "fine_tuning",
    "lkge:no-autoencoder": "autoencoder",
    "lkge:no-transfer": "transfer",
    "lkge:no-regularization": "regularization",
}


def test_every_method_is_in_the_paper_s_study_and_every_system_is_a_method() -> None:
    assert {name for name in PAPER.specs if ":" not in name} == set(METHODS) - {"evergreen"}
    assert {name for name in PAPER.specs if ":" in name} == set(ABLATIONS)
    assert len(METHODS) == 14


def test_beyond_the_paper_all_systems_share_one_base_model() -> None:
    learning = {"batch_size", "max_epochs", "min_relative_gain", "candidate_fraction"}
    own = {"method", "n3_by_degree", "parameter_averaging", *learning}
    base = [name for name in EVERGREEN if name not in own]
    for cell in BEYOND.run_specs():
        assert {name: cell.config.get(name) for name in base} == {
            name: EVERGREEN[name] for name in base
        }
        assert cell.config.method.name == cell.spec.method
    seeds = {
        name: {cell.config.training.seed for cell in BEYOND.run_specs(systems=[name])}
        for name in BEYOND.specs
    }
    assert {name for name, each in seeds.items() if each == {11, 22, 33}} == {
        "evergreen",
        "evergreen:no-transfer",
        "re-train",
    }


def test_the_evergreen_of_the_study_is_that_of_the_preset() -> None:
    for cell in BEYOND.run_specs(systems=["evergreen"]):
        own = {"dataset": cell.dataset, "seed": cell.config.training.seed}
        assert cell.config == configure(own, "evergreen")


def test_a_system_has_datasets_of_its_own_unless_some_are_named() -> None:
    def places(**chosen: list[str]) -> set[str]:
        return {cell.dataset for cell in BEYOND.run_specs(systems=["ewc"], **chosen)}

    assert places() == {"ENTITY", "RELATION"}
    assert places(datasets=["fact", "ENTITY"]) == {"FACT", "ENTITY"}
    assert {cell.dataset for cell in BEYOND.run_specs(systems=["evergreen"])} == set(
        BEYOND.datasets
    )


def test_an_ablation_differs_in_one_setting_from_evergreen() -> None:
    variants = {name for name in BEYOND.specs if name.startswith("evergreen:")}
    differences = [_differences("evergreen", name) for name in variants]
    assert {len(each) for each in differences} == {1}
    assert {"method.transfer"} in differences


def _differences(*names: str) -> set[str]:
    """The settings in which two systems differ."""
    one, other = (BEYOND.run_spec(BEYOND.specs[name], "FACT", 11).config.flat() for name in names)
    assert one.keys() == other.keys()
    return {key for key in one if one[key] != other[key]}


def test_every_score_has_the_same_systems_on_the_same_base_model() -> None:
    methods = ["evergreen", "re-train", "fine-tune", "ewc", "lkge"]
    cells = SCORES.run_specs()
    assert len({cell.name for cell in cells}) == len(cells) == 2 * len(methods) * len(BASES)
    for score in BASES:
        systems = [f"{method}:{score}" for method in methods]
        group = SCORES.run_specs(systems=systems)
        assert [cell.spec.method for cell in group[::2]] == methods
        assert {cell.config.model.score for cell in group} == {score}
        assert len({cell.spec.group for cell in group}) == 1
        assert len({(cell.config.model, cell.config.training) for cell in group}) == 1
    assert len({each.group for each in SCORES.specs.values()}) == len(BASES)


def test_all_of_it_was_printed() -> None:
    assert set(PAPER.printed) == set(PAPER.specs)
    for figures in PAPER.printed.values():
        assert tuple(figures) == PAPER.datasets
        for cell in figures.values():
            assert list(cell) == ["mrr", "hits1", "hits3", "hits10"]
            assert cell["hits1"] < cell["mrr"] < cell["hits10"]
            assert cell["hits1"] < cell["hits3"] < cell["hits10"]
    assert list(PAPER.printed["lkge"]["ENTITY"].values()) == [0.234, 0.136, 0.269, 0.425]


def test_five_seeds_for_two_systems_and_one_for_the_others() -> None:
    cells = PAPER.run_specs()
    assert len({cell.name for cell in cells}) == len(cells) == 17 * 4 + 2 * 4 * 4
    later = {cell.spec.name for cell in cells if cell.config.training.seed != 11}
    assert later == {"lkge", "fine-tune"}
    assert [cell.config.training.seed for cell in cells[:68]] == [11] * 68
    assert {cell.config.training.seed for cell in cells[68:76]} == {22}


def test_given_seeds_hold_for_every_chosen_system() -> None:
    cells = PAPER.run_specs(["FACT"], ["lkge:no-transfer", "gem"], [1, 2])
    assert [cell.name for cell in cells] == [
        *("FACT-lkge-no-transfer-1", "FACT-gem-1"),
        *("FACT-lkge-no-transfer-2", "FACT-gem-2"),
    ]


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_is_the_whole_with_one_part_off(name: str) -> None:
    for dataset in PAPER.datasets:
        whole = PAPER.run_spec(PAPER.specs["lkge"], dataset, 11).config
        without = PAPER.run_spec(PAPER.specs[name], dataset, 11).config
        assert without == whole.with_changes({ABLATIONS[name]: False})


def test_a_dataset_may_have_settings_of_its_own() -> None:
    def setting(system: str, name: str) -> list[float]:
        cells = PAPER.run_specs(systems=[system], seeds=[11])
        return [cell.config.get(name) for cell in cells]

    assert setting("lkge", "regularization_weight") == [1.0, 0.1, 0.1, 0.1]
    assert set(setting("lkge", "autoencoder_weight")) == {1.0}
    assert set(setting("dicgrl", "learning_rate")) == {0.0005}


def test_other_datasets_and_methods_can_be_included(tmp_path: Path) -> None:
    study = small_study().including([f"{tmp_path}/mine.zip", "BRICK"], ["gem", "lkge"])
    assert study.datasets == ("brick", f"{tmp_path}/mine.zip")
    assert list(study.specs) == ["fine-tune", "lkge", "lkge:no-transfer", "gem"]
    (cell,) = study.run_specs([f"{tmp_path}/mine.zip"], ["gem"])
    assert (cell.name, cell.dataset) == ("mine-gem-11", "mine")


def test_an_unknown_system_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="lkge:no-transfer"):
        PAPER.run_specs(systems=["lkge:no-transfers"])


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        ("datasets = [", "not a study"),
        ("datasets = ['brick']", "systems"),
        ("datasets = ['brick']\ncolour = 'red'\n[systems.lkge]", "colour"),
        ("datasets = ['brick']\nseeds = ['a']\n[systems.lkge]", "seeds.0: "),
        ("datasets = ['brick']\n[systems.lkge]\ncolour = 'red'", "colour"),
        ("datasets = ['brick']\n[systems.lkge]\nsettings = { alfa = 1 }", "alfa"),
        ("datasets = ['brick']\n[systems.lkge]\non.brick = { dim = -1 }", "dim = -1"),
        ("datasets = ['brick']\n[systems.gem]\nsettings = { transfer = true }", "transfer"),
        ("datasets = ['brick']\nprinted = 'none.json'\n[systems.lkge]", "none.json"),
        ("datasets = ['brick']\n[systems.lkge]\n[groups.a]\ntitle = 'A'", "settings"),
    ],
)
def test_a_wrong_study_is_told_with_its_file(tmp_path: Path, content: str, fragment: str) -> None:
    (tmp_path / "mine.toml").write_text(content, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        study_named(str(tmp_path / "mine.toml"))
    assert str(tmp_path) in str(caught.value)
    assert fragment in str(caught.value)


def test_a_study_of_one_s_own_needs_little(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("datasets = ['brick']\n[systems.gem]", encoding="utf-8")
    study = read_study(tmp_path, "mine.toml")
    assert (study.name, study.title, study.printed) == ("mine", "mine", {})
    assert [cell.name for cell in study.run_specs()] == ["brick-gem-11"]


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(UnknownName, match="'paper'"):
        study_named("papers")


def test_lists_have_commas() -> None:
    assert listed(None) is listed_seeds(None) is None
    assert listed("a, b,,a") == ["a", "b"]
    assert listed_seeds("11,22") == [11, 22]
    for wrong in (",", "-1", "1.5", "x"):
        with pytest.raises(LkgeError):
            listed_seeds(wrong)


def test_a_path_lends_its_last_name(tmp_path: Path) -> None:
    assert [short_name(name) for name in ("FACT", "a/b/", "c/d.zip")] == ["FACT", "b", "d"]
