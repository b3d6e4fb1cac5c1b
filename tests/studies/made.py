"""Small studies, and a program that stands in for `lkge`."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import pytest

from lkge.cli.flags import assigned
from lkge.config import RunConfig
from lkge.configure import configure, read_toml
from lkge.evaluation.results import PROTOCOLS, Accuracy, ProtocolResult, Results, SnapshotRecord
from lkge.studies.runner import Failure, Job, Running
from lkge.studies.study import RunSpec, Study, SystemSpec

FAKE = (sys.executable, str(Path(__file__).with_name("fake_lkge.py")))


@pytest.fixture(scope="session")
def fake_answers() -> Iterator[str]:
    """The address where `fake_lkge.py` gets what it writes."""
    with Listener(family="AF_UNIX") as listener:
        threading.Thread(target=_answer_all, args=(listener,), daemon=True).start()
        yield str(listener.address)


def _answer_all(listener: Listener) -> None:
    with suppress(OSError):  # until the listener is closed
        while True:
            with listener.accept() as process:
                answer = answered(*json.loads(process.recv_bytes()))
                process.send_bytes(json.dumps(answer).encode())


def answered(words: Sequence[str], one_thread: bool) -> dict[str, Any]:
    """Folder, settings and results of a run with these words after `lkge run`."""
    pairs = list(zip(words[::2], words[1::2], strict=True))
    flags = {name.removeprefix("--"): value for name, value in pairs if name != "--set"}
    settings = assigned([value for name, value in pairs if name == "--set"])
    folder = Path(flags.pop("resume", None) or flags.pop("out"))
    flags.pop("data", None)
    if (folder / "config.toml").exists():
        config = read_toml(folder / "config.toml")
    else:
        config = configure({**flags, "seed": int(flags["seed"]), **settings})
    return {
        "folder": str(folder),
        "config": config.to_toml(),
        "margin": config.training.margin,
        "results": made_results(config, one_thread).to_json(),
    }


def made_results(config: RunConfig, one_thread: bool) -> Results:
    """Two snapshots. The test figures fall where validation rises, so that one sees who looks."""
    settings = config.flat()
    valid = (
        0.1
        + settings.get("method.regularization_weight", 0) / 10
        + settings.get("method.autoencoder_weight", 0) / 100
        + config.model.dim / 10_000
    )
    mrr = 0.9 - valid
    cell = Accuracy(mrr, mrr / 2, mrr / 2, mrr, queries=10)
    part = ProtocolResult(matrix=((cell,), (cell, cell)), forward=(cell,))
    note = "one thread" if one_thread else ""
    records = [
        SnapshotRecord(i, 100, 60, 30, 4, 12, 9, 0.3, 2.0, 0.5, 0, valid, note) for i in range(2)
    ]
    name = Path(config.dataset.name).name
    protocols = dict.fromkeys(PROTOCOLS, part)
    return Results(name, config.method.name, config.to_dict(), tuple(records), protocols)


@pytest.fixture
def fake_program(fake_answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made by `fake_lkge.py`, and nothing is compiled for them."""
    monkeypatch.setenv("FAKE_LKGE", fake_answers)
    monkeypatch.setattr("lkge.studies.runner.PROGRAM", FAKE)
    monkeypatch.setattr("lkge.studies.runner.COMPILER", (sys.executable, "-c", ""))


def small_study(settings: Mapping[str, Any] | None = None, **others: Any) -> Study:
    """Two systems and a variant on the embedded graph."""
    specs = (
        SystemSpec("fine-tune"),
        SystemSpec("lkge", settings={"regularization_weight": 0.1}),
        SystemSpec("lkge:no-transfer", settings={"transfer": False}),
    )
    return Study(
        name="small",
        title="A small study",
        datasets=("brick",),
        specs={each.name: each for each in specs},
        settings=settings or {},
        **others,
    )


def keep_made(folder: Path, cell: RunSpec, results: Results) -> None:
    """Keep made results as those of a cell."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = {**results.to_json(), "config": cell.config.to_dict()}
    (folder / f"{cell.name}.json").write_text(json.dumps(tree), encoding="utf-8")


class RecordingObserver:
    """An observer that records the events."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seconds: dict[str, float] = {}
        self.most_at_once = 0

    def started(self, job: Job) -> None:
        self.lines.append(f"started {job.name}")

    def finished(self, job: Job, seconds: float) -> None:
        self.seconds[job.name] = seconds
        self.lines.append(f"finished {job.name}")

    def failed(self, failure: Failure) -> None:
        self.lines.append(f"failed {failure.job.name}")

    def update(self, running: list[Running] | tuple[Running, ...]) -> None:
        self.most_at_once = max(self.most_at_once, len(running))
