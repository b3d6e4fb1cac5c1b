"""`lkge bench streams`, with real runs of a few facts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import lkge as package
from lkge.cli import app
from lkge.data.facts import write_facts
from lkge.studies import stream_runs
from lkge.studies.runner import Job, Running

SMALL = ("--set", "dim=8", "--set", "max_epochs=2", "--set", 'training.backend="torch"')
CHOICE = ("--stream", "facts.tsv", "--size", "40", "--points", "0%,1,100%", *SMALL, "--out", "out")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with four hundred facts in a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(package.__file__).parents[1]))
    facts = [(f"e{n // 3}", f"r{n % 3}", f"e{(n * n + 7) % (n // 3 + 1)}") for n in range(400)]
    write_facts(tmp_path / "facts.tsv", facts)
    return tmp_path


class Ended:
    """Stands for a process that has ended."""

    def __init__(self, code: int) -> None:
        self.returncode = code

    def poll(self) -> int:
        return self.returncode


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are no processes; those of the command that is a process itself are."""

    def start(job: Job, data: Path | None) -> Running:
        words = job.command(data)[len(stream_runs.PROGRAM) :]
        job.folder.parent.mkdir(parents=True, exist_ok=True)
        with job.log.open("a") as log, redirect_stdout(log), redirect_stderr(log):
            process: Any = Ended(stream_runs.main(words))
        return Running(job, process, time.monotonic())

    monkeypatch.setattr("lkge.studies.runner._start", start)


def streams(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", "streams", *map(str, words)])


def test_all_systems_are_run_once_and_reported(folder: Path) -> None:
    done = streams(*CHOICE, "--json")
    assert done.exit_code == 0, done.stderr
    systems = json.loads(done.stdout)["systems"]
    assert [each["system"] for each in systems] == ["living", "fine-tune", "lkge", "at-once"]
    assert [[point["adds"] for point in each["points"][0]] for each in systems] == [
        *([0, 1, 5], [0, 1, 5], [0, 1, 5], [5]),
    ]
    living, fine_tune, _, at_once = (each["last"] for each in systems)
    ratio = living["MRR all"] / at_once["MRR all"]
    assert living["of at-once, all"] == pytest.approx(ratio)
    assert living["At once"] == fine_tune["At once"] == at_once["At once"] > 0
    assert sorted(path.name for path in Path("out").glob("*.json")) == [
        f"facts-{system}-11.json" for system in ("at-once", "fine-tune", "living", "lkge")
    ]
    assert Path("out/figures/quality-over-adds.svg").is_file()
    page = Path("out/README.md").read_text(encoding="utf-8")
    assert "5 % of each add are held out for test" in page
    kept = json.loads(Path("out/facts-living-11.json").read_text(encoding="utf-8"))
    assert kept["config"]["model"]["dim"] == 8
    before = {path: path.stat().st_mtime_ns for path in Path("out").glob("*.json")}

    again = streams(*CHOICE)
    assert again.exit_code == 0, again.stderr
    assert "started" not in again.stdout
    assert "Quality at the last point" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    Path("out/README.md").unlink()
    assert streams("--report-only", "--out", "out").exit_code == 0
    assert Path("out/README.md").read_text(encoding="utf-8") == page

    refused = streams(*CHOICE, "--set", "dim=4")
    assert refused.exit_code == 2
    assert "facts-living-11.json: was made with model.dim = 8, but 4 is wanted" in refused.stderr


def test_a_part_can_be_chosen_and_validation_facts_evaluated(folder: Path) -> None:
    words = ("--systems", "at-once", "--seeds", "1,2", "--at-once-points", "0,2", "--runs", "there")
    done = streams(*CHOICE, *words, "--facts", "valid", "--first", "0.8")
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in Path("out").glob("*.json")) == [
        *("facts-at-once-1.json", "facts-at-once-2.json"),
    ]
    assert sorted(path.name for path in Path("there/facts-at-once-1").glob("KG*")) == [
        *("KG-0", "KG-2"),
    ]
    tree = json.loads(Path("out/facts-at-once-2.json").read_text(encoding="utf-8"))
    assert (tree["run"]["seed"], tree["run"]["split"]) == (2, "valid")
    assert tree["stream"]["adds"] == 2
    assert "Ranks are of the validation facts" in Path("out/README.md").read_text(encoding="utf-8")
    assert streams(*CHOICE, "--report-only", "--out", "nothing").exit_code == 2


def test_the_embedded_dataset_is_a_stream(folder: Path) -> None:
    words = ("--streams", "brick:2000", "--systems", "living", "--points", "0,1", *SMALL)
    done = streams(*words, "--out", "out", "--set", "max_epochs=1")
    assert done.exit_code == 0, done.stderr
    tree = json.loads(Path("out/brick-2000-living-11.json").read_text(encoding="utf-8"))
    assert [(point["adds"], point["facts"]) for point in tree["points"]] == [(0, 3910), (1, 5910)]
    assert tree["stream"]["facts"] == 8972


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["--systems", "livin"], "'living'"),
        (["--points", "half"], "neither a number of adds"),
        (["--points", "99"], "5 adds only"),
        (["--first", "1"], "--first 1.0 is out of range"),
        (["--seeds", "eleven"], "'eleven' is not a whole number"),
        (["--streams", "genes"], "--data-genes"),
        (["--streams", "bric"], "'brick'"),
        (["--stream", "other/facts.tsv"], "two streams have the name 'facts'"),
        (["--stream", "absent.tsv"], "absent.tsv: there is no such file"),
        (["--set", "replay_wait=2"], "no setting 'replay_wait'"),
        (["--set", "method=lkge"], "every system has its own method"),
    ],
)
def test_what_does_not_exist_is_an_error_before_anything_runs(
    folder: Path, words: list[str], fragment: str
) -> None:
    refused = streams(*CHOICE, *words)
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1
    assert fragment in refused.stderr
    assert not Path("out").exists()


def test_a_benchmark_that_was_stopped_goes_on(folder: Path) -> None:
    words = [*CHOICE, "--systems", "living", "--size", "2", "--points", "0,20"]
    state = Path("out/runs/facts-living-11/results.json")
    with subprocess.Popen(
        [sys.executable, "-m", "lkge", "bench", "streams", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while not state.exists() or '"wall"' not in state.read_text(encoding="utf-8"):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, errors
    assert "To go on: lkge bench streams --stream facts.tsv" in errors
    assert "Traceback" not in errors
    assert not Path("out/facts-living-11.json").exists()
    stopped = json.loads(state.read_text(encoding="utf-8"))
    assert stopped["provenance"]["threads"] == 1
    before = stopped["batches"]

    done = streams(*words)
    assert done.exit_code == 0, done.stderr
    assert "resumed  facts-living-11" in done.stdout
    tree = json.loads(Path("out/facts-living-11.json").read_text(encoding="utf-8"))
    assert len(tree["batches"]) == 21
    assert tree["batches"][: len(before)] == before
    assert streams(*words, "--out", "whole").exit_code == 0
    whole = json.loads(Path("whole/facts-living-11.json").read_text(encoding="utf-8"))
    assert tree["points"] == whole["points"]


def test_a_failure_is_reported_at_the_end_and_the_rest_is_there(folder: Path) -> None:
    blocked = Path("out/runs/facts-fine-tune-11")
    blocked.mkdir(parents=True)
    (blocked / "KG").write_text("not a graph", encoding="utf-8")
    done = streams(*CHOICE, "--systems", "living,fine-tune")
    assert done.exit_code == 1
    assert "facts-fine-tune-11 failed: error: " in done.stderr
    assert [path.stem for path in Path("out").glob("*.json")] == ["facts-living-11"]
