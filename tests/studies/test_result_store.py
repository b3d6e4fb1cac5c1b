"""What is kept is checked, and never silently taken for something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.studies.made import keep_made, small_study

from lkge.errors import RunError
from lkge.evaluation.results import Results
from lkge.studies.result_store import read_results, results_in, stored_runs
from lkge.studies.study import study_named

MakeRun = Callable[..., Results]
ROOT = Path(__file__).parents[2]


def test_kept_runs_are_found_with_any_seed_in_the_order_of_the_study(
    tmp_path: Path, make_run: MakeRun
) -> None:
    study = small_study()
    cells = study.run_specs(seeds=[7, 30, 100])
    for cell in reversed(cells):
        keep_made(tmp_path, cell, make_run("brick", cell.config.method.name))
    (tmp_path / "brick-lkge-squared-7.json").write_text("{}", encoding="utf-8")
    (tmp_path / "brick-lkge-07.json").write_text("{}", encoding="utf-8")
    found = stored_runs(study, tmp_path)
    assert [cell.name for cell in found] == [
        f"brick-{system}-{seed}"
        for system in ("fine-tune", "lkge", "lkge-no-transfer")
        for seed in (7, 30, 100)
    ]
    assert set(found) == set(cells)


def test_other_settings_are_refused_with_file_and_remedy(tmp_path: Path, make_run: MakeRun) -> None:
    (cell,) = small_study().run_specs(systems=["lkge"])
    keep_made(tmp_path, cell, make_run("brick"))
    other = small_study({"dim": 64})
    with pytest.raises(RunError) as caught:
        stored_runs(other, tmp_path)
    for fragment in (str(tmp_path / f"{cell.name}.json"), "model.dim = 200", "64", "move it away"):
        assert fragment in str(caught.value)


def test_where_a_run_was_computed_is_no_difference(tmp_path: Path, make_run: MakeRun) -> None:
    (cell,) = small_study({"backend": "numba"}).run_specs(systems=["lkge"])
    keep_made(tmp_path, cell, make_run("brick"))
    assert len(stored_runs(small_study({"backend": "torch"}), tmp_path)) == 1


def test_a_setting_that_came_later_had_its_default(tmp_path: Path, make_run: MakeRun) -> None:
    study = small_study()
    (cell,) = study.run_specs(systems=["lkge"])
    keep_made(tmp_path, cell, make_run("brick"))
    file = tmp_path / f"{cell.name}.json"
    tree = json.loads(file.read_text(encoding="utf-8"))
    del tree["config"]["method"]["regularization_form"]
    file.write_text(json.dumps(tree), encoding="utf-8")
    assert len(stored_runs(study, tmp_path)) == 1
    with pytest.raises(RunError, match="regularization_form = 'linear'"):
        stored_runs(small_study({"regularization_form": "squared"}), tmp_path)


@pytest.mark.parametrize(
    ("folder", "study"),
    [("paper", "paper"), ("beyond", "beyond"), ("small", str(ROOT / "benchmarks/small.toml"))],
)
def test_every_committed_run_is_a_run_of_its_study(folder: str, study: str) -> None:
    """They were made by release 0.1, whose settings had other names and no sections."""
    results = ROOT / "results" / folder
    names = {run.name for run in stored_runs(study_named(study), results)}
    assert names == {file.stem for file in results.glob("*.json")}
    assert len(names) > 40


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"settings": {"colour": "red"}}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "brick-lkge-11.json").write_text(content, encoding="utf-8")
    for read in (lambda: stored_runs(small_study(), tmp_path), lambda: results_in(tmp_path)):
        with pytest.raises(RunError, match=r"brick-lkge-11\.json"):
            read()


def test_a_folder_is_read_in_the_order_of_the_paper_s_tables(
    tmp_path: Path, make_run: MakeRun
) -> None:
    for dataset in ("brick", "FACT", "ENTITY", "RELATION"):
        for method in ("zeta", "lkge", "cwr", "snapshot"):
            run = make_run(dataset, method)
            name = f"{dataset}-{method}-11.json"
            (tmp_path / name).write_text(json.dumps(run.to_json()), encoding="utf-8")
    found = [(run.dataset, run.method) for run in results_in(tmp_path)]
    assert [dataset for dataset, _ in found[::4]] == ["ENTITY", "RELATION", "FACT", "brick"]
    assert [method for _, method in found[:4]] == ["snapshot", "cwr", "lkge", "zeta"]
    assert read_results(tmp_path / "FACT-cwr-11.json").method == "cwr"
