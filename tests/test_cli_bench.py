"""`lkge methods`, `lkge bench` and `lkge tune`, most of it with runs that are made in a blink."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.studies.made import fake_answers, fake_program
from typer.testing import CliRunner, Result

import lkge as package
from lkge.cli import app
from lkge.methods import METHODS
from lkge.testing import paper_config

__all__ = ["fake_answers", "fake_program"]

BENCH = Path(__file__).parent / "studies" / "fake_studies.py"
STUDY = """
datasets = ["brick"]
[settings]
backend = "torch"
[systems.fine-tune]
[systems.lkge]
settings = { regularization_weight = 0.1 }
[systems."lkge:no-transfer"]
settings = { transfer = false }
"""


@pytest.fixture
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures and page take a while to draw, and have tests of their own."""
    monkeypatch.setattr("lkge.studies.report.draw", lambda study, kept: {})
    monkeypatch.setattr("lkge.studies.report.write_page", lambda *args: None)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study of three runs, in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(package.__file__).parents[1]))
    file = tmp_path / "mine.toml"
    file.write_text(STUDY, encoding="utf-8")
    return file


def lkge(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def test_methods_are_listed_with_the_default_first_then_as_in_the_paper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    methods = json.loads(lkge("methods", "--json").stdout)
    names = [each["name"] for each in methods]
    assert sorted(names) == sorted(METHODS)
    assert names[:4] == ["evergreen", "snapshot", "re-train", "fine-tune"]
    of_lkge = methods[names.index("lkge")]
    assert of_lkge["keeps"] == METHODS["lkge"].keeps
    weight = of_lkge["settings"][0]
    assert (weight["name"], weight["grid"]) == ("regularization_weight", [0.01, 0.1, 1.0])
    table = lkge("methods").stdout
    assert all(name in table for name in METHODS)
    assert METHODS["snapshot"].summary in table


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_shows_all_of_its_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    fields = [field for field in METHODS[name].Config.model_fields if field != "name"]
    shown = json.loads(lkge("methods", "show", name, "--json").stdout)
    assert [each["name"] for each in shown["settings"]] == fields
    assert all(each["description"] for each in shown["settings"])
    text = lkge("methods", "show", name).stdout
    assert METHODS[name].summary in text
    assert all(f"method.{field}" in text for field in fields)
    assert fields or "no settings of its own" in text


def test_an_unknown_method_is_an_error_with_the_nearest_name() -> None:
    refused = lkge("methods", "show", "evergren")
    assert refused.exit_code == 2
    assert "'evergreen'" in refused.stderr


@pytest.mark.usefixtures("fake_program", "no_drawing")
def test_a_study_is_run_once_and_reported(study: Path) -> None:
    done = lkge("bench", study)
    assert done.exit_code == 0, done.stderr
    out = study.parent / "results" / "mine"
    assert sorted(path.name for path in out.glob("*.json")) == [
        *("brick-fine-tune-11.json", "brick-lkge-11.json", "brick-lkge-no-transfer-11.json"),
    ]
    assert (out / "runs" / "brick-lkge-11" / "config.toml").is_file()
    assert "3 of 3 done" in done.stdout
    assert "lkge, no transfer" in done.stdout
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}

    again = lkge("bench", study, "--json")
    assert [row["system"] for row in json.loads(again.stdout)["systems"]] == [
        *("fine-tune", "lkge", "lkge, no transfer"),
    ]
    assert {path: path.stat().st_mtime_ns for path in out.glob("*.json")} == before


@pytest.mark.usefixtures("fake_program")
def test_report_makes_the_same_page_of_the_folder(study: Path) -> None:
    assert lkge("bench", study, "--methods", "lkge", "--out", "out").exit_code == 0
    page = Path("out/index.html").read_text(encoding="utf-8")
    assert lkge("report", "out", "--out", "other").exit_code == 0
    assert Path("other/index.html").read_text(encoding="utf-8") == page


@pytest.mark.usefixtures("fake_program", "no_drawing")
def test_parts_of_a_study_can_be_chosen(study: Path) -> None:
    words = ("--methods", "lkge:no-transfer,gem", "--seeds", "3,4", "--datasets", "brick")
    folders = ("--out", "here", "--runs", "there", "--jobs", "1")
    assert lkge("bench", study, *words, *folders, "--report-only").exit_code == 2
    assert lkge("bench", study, *words, *folders).exit_code == 0
    assert sorted(path.stem for path in Path("here").glob("*.json")) == [
        f"brick-{system}-{seed}" for system in ("gem", "lkge-no-transfer") for seed in (3, 4)
    ]
    assert len(list(Path("there").glob("*.log"))) == 4


@pytest.mark.usefixtures("fake_program", "no_drawing")
def test_a_failure_is_reported_at_the_end_and_the_rest_is_there(study: Path) -> None:
    study.write_text(STUDY + "on.brick = { margin = 13.0 }\n", encoding="utf-8")
    done = lkge("bench", study, "--out", "out")
    assert done.exit_code == 1
    log = Path("out/runs/brick-lkge-no-transfer-11.log")
    assert f"brick-lkge-no-transfer-11 failed: error: thirteen is too much; its log: {log}" in (
        done.stderr
    )
    assert "thirteen" in log.read_text(encoding="utf-8")
    assert len(list(Path("out").glob("*.json"))) == 2
    assert "Not run yet: brick-lkge-no-transfer-11." in Path("out/README.md").read_text("utf-8")


@pytest.mark.usefixtures("fake_program", "no_drawing")
def test_kept_results_with_other_settings_are_an_error(study: Path) -> None:
    assert lkge("bench", study, "--methods", "lkge", "--out", "out").exit_code == 0
    study.write_text(STUDY.replace("weight = 0.1", "weight = 0.5"), encoding="utf-8")
    refused = lkge("bench", study, "--out", "out")
    assert refused.exit_code == 2
    for fragment in ("out/brick-lkge-11.json", "weight = 0.1", "0.5", "move it away"):
        assert fragment in refused.stderr
    assert len(list(Path("out").glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["papers"], "'paper'"),
        (["paper", "--methods", "lkgee"], "'lkge'"),
        (["paper", "--seeds", "eleven"], "eleven"),
        (["paper", "--datasets", "ENTITY", "--data", "."], "ENTITY"),
        (["paper", "--jobs", "0"], "jobs"),
    ],
)
def test_what_does_not_exist_is_an_error_before_anything_runs(
    study: Path, words: list[str], fragment: str
) -> None:
    refused = lkge("bench", *words)
    assert refused.exit_code == 2
    assert fragment in refused.stderr
    assert not Path("results").exists()


def started(*words: str | Path) -> subprocess.Popen[str]:
    """The command in a process of its own, which heeds Ctrl-C wherever the tests run."""
    return subprocess.Popen(
        [sys.executable, str(BENCH), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.usefixtures("fake_program", "no_drawing")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_study_that_was_stopped_goes_on(study: Path, stop: signal.Signals) -> None:
    study.write_text(STUDY + "on.brick = { margin = 77.0 }\n", encoding="utf-8")
    out, waiting = Path("out"), Path("out/runs/brick-lkge-no-transfer-11")
    with started("bench", study, "--out", out, "--jobs", "2") as process:
        try:
            deadline = time.monotonic() + 60
            while len(list(out.glob("*.json"))) < 2 or not (waiting / "log.jsonl").exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(stop)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert f"To go on: lkge bench {study} --out out --jobs 2" in errors
    assert "Traceback" not in errors
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}

    (out / "runs" / "go").touch()
    done = lkge("bench", study, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert "resumed  brick-lkge-no-transfer-11" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (out / "brick-lkge-no-transfer-11.json").is_file()


@pytest.mark.usefixtures("fake_program")
def test_tune_prints_validation_figures_and_the_command_but_no_test_figure(study: Path) -> None:
    done = lkge("tune", "--method", "ewc", "--dataset", "brick", "--backend", "torch")
    assert done.exit_code == 0, done.stderr
    assert Path("runs/tune-brick-ewc/tune.json").is_file()
    table, command = done.stdout.split("Chosen by validation facts alone.")
    valid = [0.1 + weight / 10 + 0.02 for weight in (0.01, 0.1, 1.0)]
    for figure in valid:
        assert f"{figure:.4f}" in table
        assert f"{0.9 - figure:.3f}" not in done.stdout
    assert shlex.split(command) == [
        *("lkge", "run", "--dataset", "brick", "--method", "ewc", "--seed", "11"),
        *("--set", 'training.backend="torch"', "--set", "method.regularization_weight=1.0"),
    ]
    again = lkge("tune", "--method", "ewc", "--dataset", "brick", "--backend", "torch", "--json")
    assert json.loads(again.stdout)["best"]["choice"] == {"method.regularization_weight": 1.0}


@pytest.mark.usefixtures("fake_program")
def test_tune_over_the_base_model_with_a_file_of_settings(study: Path) -> None:
    study.with_name("my.toml").write_text('method = "gem"\nmargin = 2.0\n', encoding="utf-8")
    words = ("--config", "my.toml", "--out", "here", "--jobs", "2", "--backend", "torch")
    pytest.importorskip("optuna")
    done = lkge("tune", *words, "--space", "base", "--trials", "2", "--json")
    tree = json.loads(done.stdout)
    assert len(tree["trials"]) == 2
    assert set(tree["best"]["choice"]) == {
        *("training.learning_rate", "training.batch_size", "model.dim"),
    }
    config = tree["settings"]
    assert (config["method"]["name"], config["training"]["margin"]) == ("gem", 2.0)


def test_what_is_tuned_is_not_given(study: Path) -> None:
    for name in ("regularization_weight", "method.regularization_weight"):
        refused = lkge("tune", "--method", "ewc", "--set", f"{name}=0.3")
        assert refused.exit_code == 2
        assert f"--set {name} is what is tuned here" in refused.stderr
    refused = lkge("tune", "--method", "ewc", "--space", "base", "--dim", "8")
    assert "--dim is what is tuned here" in refused.stderr


@pytest.mark.usefixtures("no_drawing")
def test_a_real_study_of_a_few_facts(study: Path) -> None:
    facts = (f"e{n},r{k % 2},e{(n + k) % 20}\n" for n in range(20) for k in range(1, 8))
    source = Path("ring.csv")
    source.write_text("".join(facts), encoding="utf-8")
    built = ("--growth", "entity", "--snapshots", "2", "--out", "ring")
    assert lkge("datasets", "build", source, *built).exit_code == 0
    study.write_text(
        'datasets = ["./ring"]\n[systems.lkge]\n[settings]\n'
        'dim = 8\nmax_epochs = 2\nbatch_size = 64\nbackend = "torch"\n',
        encoding="utf-8",
    )
    done = lkge("bench", study, "--out", "out", "--json")
    assert done.exit_code == 0, done.stderr
    (system,) = json.loads(done.stdout)["systems"]
    assert (system["dataset"], system["snapshots"]) == ("ring", 2)
    kept = json.loads(Path("out/ring-lkge-11.json").read_text(encoding="utf-8"))
    wanted = paper_config(dataset="./ring", dim=8, max_epochs=2, batch_size=64, backend="torch")
    assert kept["config"] == wanted.to_dict()
