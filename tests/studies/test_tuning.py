"""Settings are chosen by validation facts; a search goes on where it was stopped."""

from __future__ import annotations

import json
import math
import sys
from itertools import islice
from pathlib import Path

import pytest
from tests.studies.made import RecordingObserver

from lkge.config import RunConfig
from lkge.configure import configure
from lkge.errors import RunError, SettingsError
from lkge.methods import METHODS, method_named
from lkge.studies.tuning import Search, Space, Trial, grid, space_of, suggestions
from lkge.testing import paper_config

WEIGHT, OTHER_WEIGHT = "method.regularization_weight", "method.autoencoder_weight"
SPACE: Space = {WEIGHT: (0.01, 0.1, 1.0), OTHER_WEIGHT: (0.1, 1.0)}


def run(search: Search, trials: int | None = None) -> RecordingObserver:
    observer = RecordingObserver()
    search.run(trials=trials, jobs=2, observer=observer)
    return observer


def space(method: str, base: bool = False) -> Space:
    return space_of(paper_config(method=method), base=base)


def test_the_paper_s_grid() -> None:
    of_base = space("fine-tune")
    assert of_base == {
        "training.learning_rate": (0.0005, 0.0001, 0.001),
        "training.batch_size": (1024, 2048),
        "model.dim": (100, 200),
    }
    assert len(grid(of_base)) == 12
    assert len(grid(space("lkge"))) == 9
    assert grid(space("ewc")) == [{WEIGHT: 0.01}, {WEIGHT: 0.1}, {WEIGHT: 1.0}]
    assert space("lkge", base=True) == of_base


@pytest.mark.parametrize("name", METHODS)
def test_what_is_tuned_are_settings_that_the_method_accepts(name: str) -> None:
    config = configure({"method": name})
    space_of(config, base=True)
    own = _own_numbers(config)
    for choice in grid(space_of(config, base=False)):
        if own:
            assert set(choice) <= own
            method_named(name)(config.with_changes(choice))


def _own_numbers(config: RunConfig) -> set[str]:
    return {
        f"method.{name}" for name, value in config.method if type(value) in (int, float) and value
    }


def test_a_method_without_a_grid_has_values_around_each_of_its_numbers() -> None:
    assert space("gem") == {"method.memory_size": (2500, 5000, 10000)}


def test_another_optimizer_has_values_around_those_of_the_preset() -> None:
    near = space_of(configure({"method": "evergreen"}), base=True)
    assert near["training.learning_rate"] == (0.1, 0.3, 0.9)
    assert near["training.batch_size"] == (750, 1500, 3000)
    assert near["model.dim"] == (100, 200)


@pytest.mark.usefixtures("fake_program")
def test_the_whole_grid_is_tried_and_validation_decides(tmp_path: Path) -> None:
    search = Search.opened(tmp_path, paper_config(dim=10), SPACE)
    run(search)
    tried = [trial.choice for trial in search.trials]
    assert sorted(map(str, tried)) == sorted(map(str, grid(SPACE)))
    assert search.best is not None
    assert search.best.choice == {WEIGHT: 1.0, OTHER_WEIGHT: 1.0}
    tree = json.loads((tmp_path / "tune.json").read_text(encoding="utf-8"))
    assert tree["best"]["choice"] == {WEIGHT: 1.0, OTHER_WEIGHT: 1.0}
    assert tree["command"][:2] == ["lkge", "run"]
    assert f"--set model.dim=10 --set {WEIGHT}=1.0 --set {OTHER_WEIGHT}=1.0" in " ".join(
        tree["command"]
    )
    assert set(tree["trials"][0]) == {"choice", "valid_mrr", "epochs", "seconds"}


@pytest.mark.usefixtures("fake_program")
def test_a_search_goes_on_with_what_is_left(tmp_path: Path) -> None:
    first = Search.opened(tmp_path, paper_config(), {WEIGHT: (0.1, 1.0)})
    run(first)
    file = tmp_path / "tune.json"
    tree = json.loads(file.read_text(encoding="utf-8"))
    tree["trials"] = tree["trials"][:1]
    file.write_text(json.dumps(tree), encoding="utf-8")
    again = Search.opened(tmp_path, paper_config(), {WEIGHT: (0.1, 1.0)})
    assert len(again.trials) == 1
    assert len(run(again).lines) == 2
    assert len(again.trials) == 2
    assert run(Search.opened(tmp_path, paper_config(), {WEIGHT: (0.1, 1.0)})).lines == []


@pytest.mark.usefixtures("fake_program")
def test_another_search_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run(Search.opened(tmp_path, paper_config(), {WEIGHT: (0.1,)}))
    with pytest.raises(RunError, match=r"tune\.json: was made with model.dim = 200"):
        Search.opened(tmp_path, paper_config(dim=100), {WEIGHT: (0.1,)})
    with pytest.raises(RunError, match="searched other choices"):
        Search.opened(tmp_path, paper_config(), {WEIGHT: (0.2,)})
    (tmp_path / "tune.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match="not a search for settings"):
        Search.opened(tmp_path, paper_config(), {WEIGHT: (0.1,)})


@pytest.mark.usefixtures("fake_program")
def test_a_trial_that_fails_is_not_tried_for_ever(tmp_path: Path) -> None:
    search = Search.opened(tmp_path, paper_config(), {"training.margin": (8.0, 13.0)})
    failures = search.run(trials=None, jobs=2, observer=RecordingObserver())
    assert [failure.job.name for failure in failures] == ["margin-13.0"]
    assert [trial.choice for trial in search.trials] == [{"training.margin": 8.0}]


def test_without_validation_facts_nothing_is_best(tmp_path: Path) -> None:
    search = Search(tmp_path, paper_config(), SPACE, [Trial({WEIGHT: 0.1}, math.nan, 1, 1.0)])
    assert search.best is None
    assert search.to_json()["trials"][0]["valid_mrr"] is None


@pytest.mark.usefixtures("fake_program")
def test_optuna_makes_so_many_choices_of_the_same_space(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    search = Search.opened(tmp_path, paper_config(), SPACE)
    run(search, trials=4)
    tried = [trial.choice for trial in search.trials]
    assert len(tried) == 4
    assert all(choice in grid(SPACE) for choice in tried)
    assert len({str(choice) for choice in tried}) == 4
    assert run(Search.opened(tmp_path, paper_config(), SPACE), trials=4).lines == []


def test_suggestions_depend_on_seed_and_history_alone_and_cover_the_grid() -> None:
    pytest.importorskip("optuna")
    history = [Trial({WEIGHT: 0.1, OTHER_WEIGHT: 1.0}, 0.2, 1, 1.0)]
    first, second = (list(suggestions(SPACE, history, seed=5)) for _ in range(2))
    assert first == second
    assert sorted(map(str, first)) == sorted(map(str, grid(SPACE)))
    others = [list(islice(suggestions(SPACE, history, seed=seed), 3)) for seed in range(6)]
    assert any(each != others[0] for each in others)


def test_optuna_is_asked_for_with_the_line_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingsError, match=r"pip install 'lkge\[tune\]'"):
        run(Search.opened(tmp_path, paper_config(), SPACE), trials=2)
