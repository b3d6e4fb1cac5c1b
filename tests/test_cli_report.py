from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lkge.cli import app
from lkge.evaluation.results import PROTOCOLS, Accuracy, ProtocolResult, Results, SnapshotRecord
from lkge.testing import paper_config


def cell(mrr: float) -> Accuracy:
    return Accuracy(mrr, mrr / 2, mrr / 2, mrr, queries=10)


def results(seed: int, mrr: float) -> Results:
    part = ProtocolResult(matrix=((cell(0.4),), (cell(mrr), cell(mrr))), forward=(cell(0.1),))
    record = SnapshotRecord(0, 100, 60, 30, 4, 12, 9, 0.3, 2.0, 0.5, 0)
    return Results(
        dataset="brick",
        method="lkge",
        config=paper_config(seed=seed).to_dict(),
        snapshots=(record, record),
        protocols=dict.fromkeys(PROTOCOLS, part),
    )


def run_folder(folder: Path, seed: int = 1, mrr: float = 0.31) -> Path:
    folder.mkdir()
    tree = results(seed, mrr).to_json()
    (folder / "results.json").write_text(json.dumps(tree), encoding="utf-8")
    return folder


def lkge(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["report", *map(str, words)])


def assert_refused(result: Result, *fragments: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    for fragment in fragments:
        assert fragment in result.stderr


def test_one_run_gets_its_tables_and_a_page(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "r")
    result = lkge(run)
    assert result.exit_code == 0
    assert "0.310" in result.stdout
    page = run / "index.html"
    assert f"Open {page}" in result.stdout
    assert "brick" in page.read_text(encoding="utf-8")
    assert list((run / "figures").glob("*.png"))
    assert list((run / "figures").glob("*.svg"))


def test_runs_that_differ_in_their_seed_are_averaged(tmp_path: Path) -> None:
    runs = [run_folder(tmp_path / str(seed), seed, 0.3 + seed / 10) for seed in (1, 2)]
    result = lkge(*runs, "--out", tmp_path / "both", "--json")
    tree = json.loads(result.stdout)
    assert Path(tree["page"]).parent == tmp_path / "both"
    (system,) = tree["systems"]
    assert system["seeds"] == [1, 2]
    assert system["paper"]["mrr"]["mean"] == pytest.approx(0.45)


def test_several_runs_are_reported_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [run_folder(tmp_path / str(seed), seed) for seed in (1, 2)]
    assert lkge(*runs).exit_code == 0
    assert list((tmp_path / "report").glob("*.html"))


def test_the_folder_of_a_study_means_all_its_results(tmp_path: Path) -> None:
    for seed in (1, 2):
        tree = results(seed, 0.3).to_json()
        (tmp_path / f"brick-lkge-{seed}.json").write_text(json.dumps(tree), encoding="utf-8")
    found = lkge(tmp_path, "--json")
    assert [system["seeds"] for system in json.loads(found.stdout)["systems"]] == [[1, 2]]
    assert (tmp_path / "index.html").is_file()
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    assert_refused(lkge(tmp_path), "other.json", "not the results of a run")


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    assert_refused(lkge(tmp_path), str(tmp_path), "results.json")
    assert_refused(lkge(tmp_path / "nowhere"), "nowhere", "results.json")


def test_an_unfinished_run_is_to_be_finished_first(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    assert_refused(lkge(tmp_path), f"lkge run --resume {tmp_path}")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', "3", "\udcff"])
def test_a_damaged_results_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert_refused(lkge(tmp_path), str(file))


def test_at_least_one_run_is_needed() -> None:
    assert lkge().exit_code == 2
