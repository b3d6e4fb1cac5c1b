"""The commands with nothing replaced, on a graph of a few facts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lkge.cli import app
from lkge.config import ModelConfig
from lkge.models.scores import SCORES

SMALL = ("--dim", "8", "--batch-size", "32", "--backend", "torch", "--method", "fine-tune")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Twenty entities, each pointing to seven others, in three snapshots."""
    source = tmp_path / "ring.csv"
    facts = (f"e{n},r{k % 2},e{(n + k) % 20}\n" for n in range(20) for k in range(1, 8))
    source.write_text("".join(facts), encoding="utf-8")
    folder = tmp_path / "ring"
    words = ("--growth", "entity", "--snapshots", "3", "--out", folder)
    assert lkge("datasets", "build", source, *words).exit_code == 0
    return folder


def lkge(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def test_build_run_report(graph: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    learned = lkge("run", "--dataset", graph, "--out", run, "--max-epochs", "3", "--json", *SMALL)
    assert learned.exit_code == 0, learned.stderr
    results = json.loads(learned.stdout)
    assert len(results["snapshots"]) == 3
    assert results["config"]["model"]["dim"] == 8
    for name in ("config.toml", "results.json", "log.jsonl", "index.html", "model.safetensors"):
        assert (run / name).stat().st_size > 0
    log = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    assert log[-1]["type"] == "RunFinished"

    reported = lkge("report", run, "--out", tmp_path / "page", "--json")
    (system,) = json.loads(reported.stdout)["systems"]
    assert system["dataset"] == results["dataset"]
    assert (tmp_path / "page" / "index.html").is_file()

    again = lkge("run", "--resume", run, "--json")
    assert json.loads(again.stdout) == results


@pytest.mark.parametrize("score", sorted(SCORES))
def test_every_score_is_run_by_its_name(graph: Path, tmp_path: Path, score: str) -> None:
    words = ("--out", tmp_path / "run", "--max-epochs", "2", "--json", *SMALL)
    learned = lkge("run", "--dataset", graph, "--score", score, *words)
    assert learned.exit_code == 0, learned.stderr
    assert json.loads(learned.stdout)["config"]["model"]["score"] == score


def test_the_help_names_every_score() -> None:
    text = str(ModelConfig.model_fields["score"].description)
    assert sorted(text.rstrip(".").replace(" or ", ", ").split(", ")) == sorted(SCORES)


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (["--method", "lkgee"], ["lkgee", "'lkge'"]),
        (["--score", "transee"], ["transee"]),
        (["--score", "complex", "--dim", "7"], ["dim = 7 is odd", "--dim"]),
        (["--dataset", "nowhere/at/all"], ["nowhere/at/all"]),
    ],
)
def test_what_does_not_exist_is_one_line_and_leaves_nothing(
    graph: Path, tmp_path: Path, words: list[str], fragments: list[str]
) -> None:
    run = tmp_path / "run"
    result = lkge("run", "--dataset", graph, "--out", run, *SMALL, *words)
    assert result.exit_code == 2
    *warnings, error = result.stderr.splitlines()
    assert all(line.startswith("warning: ") for line in warnings)
    assert error.startswith("error: ")
    assert all(fragment in error for fragment in fragments)
    assert not run.exists()


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m lkge datasets list --json | head -c 1"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}
    )
    assert (done.stdout, done.stderr) == ("[", "")
