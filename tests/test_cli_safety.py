"""What a command prints is safe for a terminal, and every failure is one line."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import lkge
from lkge.cli import app
from lkge.training.display import PlainLines, ProgressState, render
from lkge.training.events import RunStarted, Waiting, json_line

EVIL = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e\x7f\ud800"
NAME = "n\x1b[2J\x9b\u202e\u2066"


def lkge_(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def harmless(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose folder and names would clear the screen."""
    folder = tmp_path_factory.mktemp("safe") / "K\x1b[2JG"
    graph = lkge.init(folder, dim=4, max_epochs=1, backend="torch")
    graph.add([(NAME, "r\x1b[0m", f"{NAME}{n}") for n in range(5)], source=EVIL[:-1])
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["log"],
        ["health"],
        ["predict", "-s", NAME, "-r", "r\x1b[0m"],
        ["predict", "-s", "none\x1b[2J", "-r", "r\x1b[0m"],
        ["similar", NAME],
        ["similar", EVIL],
        ["keep"],
        ["tag", "a\x1b[2J"],
        ["check"],
        ["rollback", "x\x1b[2J"],
    ],
    ids=lambda words: words[0],
)
def test_no_name_reaches_the_terminal_as_a_command(folder: Path, words: list[str]) -> None:
    done = lkge_(words[0], folder, *words[1:])
    assert done.output.strip()
    assert harmless(done.stdout)
    assert harmless(done.stderr)


@pytest.mark.parametrize("words", [["log"], ["predict", "-s", NAME, "-r", "r\x1b[0m"]])
def test_json_is_safe_and_complete(folder: Path, words: list[str]) -> None:
    done = lkge_(words[0], folder, *words[1:], "--json")
    assert harmless(done.stdout)
    assert NAME in done.stdout.encode().decode("unicode_escape") or words == ["log"]
    tree = json.loads(done.stdout)
    if words == ["log"]:
        assert tree[1]["source"] == EVIL[:-1]
    else:
        assert f"{NAME}0" in {answer["entity"] for answer in tree["answers"]}


def test_errors_and_warnings_are_safe(tmp_path: Path) -> None:
    file = tmp_path / "f\x1b[2J.tsv"
    file.write_text("a\x1b[2J\tr\n", encoding="utf-8")
    done = lkge_("init", tmp_path / "KG", "--from", file)
    assert (done.exit_code, harmless(done.output)) == (2, True)
    assert len(done.stderr.splitlines()) == 1


def test_progress_is_safe() -> None:
    started = RunStarted(EVIL, "lkge", 1, 0, 0)
    for event in (started, Waiting(EVIL)):
        lines = io.StringIO()
        PlainLines(lines)(event)
        assert harmless(lines.getvalue())
        state, screen = ProgressState(), Console(file=io.StringIO(), width=80)
        state.update(event)
        screen.print(render(state, 0.0))
        assert harmless(screen.file.getvalue())  # type: ignore[attr-defined]
        line = json_line(event)
        assert harmless(line)
        assert EVIL in json.loads(line).values()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "make room on the disk"),
        (OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), "a/file"), "a/file: .*has no locks"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "x"), "x: Permission denied"),
        (MemoryError(), "not enough memory"),
        (RecursionError("deep"), "nested too deeply"),
        (OSError("unusual"), "unusual"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_system_refuses_is_one_line(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("lkge.data.catalog.list_datasets", fail)
    done = lkge_("datasets", "list")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert "Errno" not in line
    assert re.search(message, line)


@pytest.mark.parametrize("words", [["--version"], ["datasets", "list", "--json"]])
def test_an_output_that_cannot_be_written_is_one_line(words: list[str]) -> None:
    command = [sys.executable, "-m", "lkge", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "make room on the disk" in done.stderr
