"""Settings are chosen by validation facts; a search goes on where it was stopped."""

from __future__ import annotations

import json
import math
import sys
from itertools import islice
from pathlib import Path

import pytest
from tests.studies.made import RecordingObserver

from lkge.errors import RunError, SettingsError
from lkge.methods import METHODS
from lkge.studies.tuning import BASE, Search, Space, Trial, grid, space_of, suggestions
from lkge.testing import paper_config

SPACE: Space = {"regularization_weight": (0.01, 0.1, 1.0), "autoencoder_weight": (0.1, 1.0)}


def run(search: Search, trials: int | None = None) -> RecordingObserver:
    observer = RecordingObserver()
    search.run(trials=trials, jobs=2, observer=observer)
    return observer


def test_the_paper_s_grid() -> None:
    config = paper_config()
    assert len(grid(BASE)) == 12
    assert space_of(METHODS["fine-tune"].tunes, config, base=False) is BASE
    assert len(grid(space_of(METHODS["lkge"].tunes, config, base=False))) == 9
    assert grid(space_of(METHODS["ewc"].tunes, config, base=False)) == [
        {"regularization_weight": 0.01},
        {"regularization_weight": 0.1},
        {"regularization_weight": 1.0},
    ]
    assert space_of(METHODS["lkge"].tunes, config, base=True) is BASE


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_tunes_are_settings(name: str) -> None:
    space_of(METHODS[name].tunes, paper_config(), base=False)


def test_a_space_that_is_no_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="gamma"):
        space_of({"gamma": (1.0,)}, paper_config(), base=False)


@pytest.mark.usefixtures("fake_program")
def test_the_whole_grid_is_tried_and_validation_decides(tmp_path: Path) -> None:
    search = Search.opened(tmp_path, paper_config(dim=10), SPACE)
    run(search)
    tried = [trial.choice for trial in search.trials]
    assert sorted(map(str, tried)) == sorted(map(str, grid(SPACE)))
    assert search.best is not None
    assert search.best.choice == {"regularization_weight": 1.0, "autoencoder_weight": 1.0}
    tree = json.loads((tmp_path / "tune.json").read_text(encoding="utf-8"))
    assert tree["best"]["choice"] == {"regularization_weight": 1.0, "autoencoder_weight": 1.0}
    assert tree["command"][:2] == ["lkge", "run"]
    assert "--dim 10 --alpha 1.0 --beta 1.0" in " ".join(tree["command"])
    assert set(tree["trials"][0]) == {"choice", "valid_mrr", "epochs", "seconds"}


@pytest.mark.usefixtures("fake_program")
def test_a_search_goes_on_with_what_is_left(tmp_path: Path) -> None:
    first = Search.opened(tmp_path, paper_config(), {"regularization_weight": (0.1, 1.0)})
    run(first)
    file = tmp_path / "tune.json"
    tree = json.loads(file.read_text(encoding="utf-8"))
    tree["trials"] = tree["trials"][:1]
    file.write_text(json.dumps(tree), encoding="utf-8")
    again = Search.opened(tmp_path, paper_config(), {"regularization_weight": (0.1, 1.0)})
    assert len(again.trials) == 1
    assert len(run(again).lines) == 2
    assert len(again.trials) == 2
    assert (
        run(Search.opened(tmp_path, paper_config(), {"regularization_weight": (0.1, 1.0)})).lines
        == []
    )


@pytest.mark.usefixtures("fake_program")
def test_another_search_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    run(Search.opened(tmp_path, paper_config(), {"regularization_weight": (0.1,)}))
    with pytest.raises(RunError, match=r"tune\.json: was made with dim = 200"):
        Search.opened(tmp_path, paper_config(dim=100), {"regularization_weight": (0.1,)})
    with pytest.raises(RunError, match="searched other choices"):
        Search.opened(tmp_path, paper_config(), {"regularization_weight": (0.2,)})
    (tmp_path / "tune.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RunError, match="not a search for settings"):
        Search.opened(tmp_path, paper_config(), {"regularization_weight": (0.1,)})


@pytest.mark.usefixtures("fake_program")
def test_a_trial_that_fails_is_not_tried_for_ever(tmp_path: Path) -> None:
    search = Search.opened(tmp_path, paper_config(), {"margin": (8.0, 13.0)})
    failures = search.run(trials=None, jobs=2, observer=RecordingObserver())
    assert [failure.job.name for failure in failures] == ["margin-13"]
    assert [trial.choice for trial in search.trials] == [{"margin": 8.0}]


def test_without_validation_facts_nothing_is_best(tmp_path: Path) -> None:
    search = Search(
        tmp_path, paper_config(), SPACE, [Trial({"regularization_weight": 0.1}, math.nan, 1, 1.0)]
    )
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
    history = [Trial({"regularization_weight": 0.1, "autoencoder_weight": 1.0}, 0.2, 1, 1.0)]
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
