"""Small studies, and a program that stands in for `lkge`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lkge.evaluation.results import Results
from lkge.studies.runner import Failure, Job, Running
from lkge.studies.study import RunSpec, Study, SystemSpec

FAKE = (sys.executable, str(Path(__file__).with_name("fake_lkge.py")))


@pytest.fixture
def fake_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made by `fake_lkge.py`, and nothing is compiled for them."""
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
