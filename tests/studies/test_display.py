"""Entries for a file, a table for a terminal."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from lkge.studies.display import observing, status_of
from lkge.studies.runner import Failure, Job, Running
from lkge.testing import paper_config


def shown(tmp_path: Path, *, terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    job = Job("FACT-lkge-11", paper_config(), tmp_path / "FACT-lkge-11")
    job.folder.mkdir()
    event = '{"type": "EpochFinished", "snapshot": 1, "epoch": 25, "valid_mrr": 0.2131}\n'
    (job.folder / "log.jsonl").write_text(event, encoding="utf-8")
    with (
        subprocess.Popen([sys.executable, "-c", ""]) as process,
        observing(console, total=3, done=1) as observer,
    ):
        observer.started(job)
        observer.update([Running(job, process, time.monotonic() - 65)])
        observer.finished(job, 65.0)
        observer.failed(Failure(job, "error: no [bold]luck[/bold]"))
    return stream.getvalue()


def test_a_file_gets_a_line_for_each_event(tmp_path: Path) -> None:
    assert shown(tmp_path, terminal=False).splitlines() == [
        "started  FACT-lkge-11",
        "finished FACT-lkge-11 in 65.0 s: 2 of 3 done",
        "FAILED   FACT-lkge-11: error: no [bold]luck[/bold]",
    ]


def test_a_terminal_sees_where_each_run_stands(tmp_path: Path) -> None:
    text = shown(tmp_path, terminal=True)
    assert "snapshot 2, epoch 25, validation MRR 0.213" in text
    assert "2 of 3 done" in text
    assert "[bold]luck[/bold]" in text


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("", "starting"),
        ('{"type": "Compiling"}\n', "starting"),
        ('{"type": "Evaluating", "snapshot": 0}\n', "snapshot 1, ranking"),
        ('{"type": "EpochFinished", "snapshot": 0, "epoch": 1, "valid_mrr": null}', "epoch 1"),
        ('{"type": "SnapshotStarted", "snapshot": 4}\n', "snapshot 5"),
        ('{"type": "Evaluating", "snapshot": 0}\n{"type', "starting"),
    ],
)
def test_the_last_line_of_the_log_says_where_a_run_stands(
    tmp_path: Path, content: str, place: str
) -> None:
    log = tmp_path / "log.jsonl"
    assert status_of(log) == "starting"
    log.write_text("x" * 5000 + "\n" + content, encoding="utf-8")
    assert place in status_of(log)
