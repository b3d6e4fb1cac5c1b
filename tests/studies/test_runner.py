"""Runs in processes of their own: several at a time, resumable, and one failure is only one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.studies.made import RecordingObserver
from typer.testing import CliRunner

from lkge.cli import app
from lkge.config import RunConfig
from lkge.configure import EVERGREEN, configure
from lkge.errors import RunError
from lkge.studies.runner import Failure, Job, Running, run_arguments, run_jobs
from lkge.testing import paper_config

pytestmark = pytest.mark.usefixtures("fake_program")


def job(folder: Path, name: str, **changes: object) -> Job:
    return Job(name, paper_config().with_changes(changes), folder / name)


def run(
    jobs: Sequence[Job], at_once: int = 2
) -> tuple[list[Failure], RecordingObserver, list[str]]:
    observer, kept = RecordingObserver(), list[str]()
    found = run_jobs(
        jobs, at_once=at_once, store=lambda one: kept.append(one.name), observer=observer
    )
    return found, observer, kept


def test_all_are_made_and_not_more_at_once_than_wanted(tmp_path: Path) -> None:
    jobs = [job(tmp_path, name) for name in "abc"]
    before = time.monotonic()
    failures, observer, kept = run(jobs, at_once=2)
    whole = time.monotonic() - before
    assert failures == []
    a, b, c = (observer.seconds[name] for name in "abc")
    assert min(a, b) + c <= whole
    assert sorted(kept) == ["a", "b", "c"]
    assert observer.most_at_once == 2
    assert observer.lines[:2] == ["started a", "started b"]
    for each in jobs:
        assert '"one thread"' in (each.folder / "results.json").read_text(encoding="utf-8")


def test_one_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = [job(tmp_path, "bad", margin=13.0), job(tmp_path, "good")]
    failures, observer, kept = run(jobs, at_once=1)
    assert kept == ["good"]
    assert [failure.job.name for failure in failures] == ["bad"]
    assert failures[0].reason == "error: thirteen is too much"
    assert "thirteen" in failures[0].job.log.read_text(encoding="utf-8")
    assert "failed bad" in observer.lines


def test_what_cannot_be_kept_is_a_failure_too(tmp_path: Path) -> None:
    def keep(one: Job) -> None:
        raise OSError("disk full")

    jobs = [job(tmp_path, "a")]
    (failure,) = run_jobs(jobs, at_once=1, store=keep, observer=RecordingObserver())
    assert "disk full" in failure.reason


def test_what_was_begun_goes_on(tmp_path: Path) -> None:
    begun = job(tmp_path, "a", dim=32)
    begun.folder.mkdir()
    (begun.folder / "config.toml").write_text(begun.config.to_toml(), encoding="utf-8")
    assert run([begun])[2] == ["a"]
    assert f"run --resume {begun.folder}" in begun.log.read_text(encoding="utf-8")


def test_a_run_begun_with_other_settings_is_refused_before_anything_starts(tmp_path: Path) -> None:
    begun = job(tmp_path, "b", dim=32)
    begun.folder.mkdir()
    (begun.folder / "config.toml").write_text(paper_config(dim=64).to_toml(), encoding="utf-8")
    with pytest.raises(RunError, match=r"b: was made with model.dim = 64, but 32 is wanted"):
        run([job(tmp_path, "a"), begun])
    assert not (tmp_path / "a").exists()


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Processes heed SIGINT even where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
def test_an_interruption_stops_all_processes_where_they_can_go_on(tmp_path: Path) -> None:
    class Impatient(RecordingObserver):
        def update(self, running: Sequence[Running]) -> None:
            self.running = list(running)
            if all((one.job.folder / "log.jsonl").exists() for one in running):
                raise KeyboardInterrupt

    observer = Impatient()
    jobs = [job(tmp_path, name, margin=77.0) for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, at_once=2, store=lambda one: None, observer=observer)
    assert [one.process.returncode for one in observer.running] == [130, 130]
    assert all(one.is_begun for one in jobs)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dataset": "a folder/x", "method": "ewc", "seed": 3, "learning_rate": 1e-5},
        {
            "transfer": False,
            "fine_tuning": False,
            "batch_size": 7,
            "regularization_form": "squared",
        },
        {"method": "evergreen"},
        {**EVERGREEN, "replay_queries": 7},
        {**EVERGREEN, "method": "re-train"},
    ],
)
def test_the_words_of_a_run_lead_back_to_its_settings(
    changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, asked = configure(changes, "paper"), list[RunConfig]()

    def learn(
        folder: Path, data: Path | None, configured: Callable[[], RunConfig], quiet: bool
    ) -> object:
        asked.append(configured())
        raise RunError("enough")

    monkeypatch.setattr("lkge.cli.run._anew", learn)
    CliRunner().invoke(app, run_arguments(wanted))
    assert [config.flat() for config in asked] == [wanted.flat()]
