from __future__ import annotations

import os
import subprocess
import sys
import time

from typer.testing import CliRunner

import lkge
from lkge.cli import app


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"lkge {lkge.__version__}\n")


def test_without_a_command_the_help_is_shown() -> None:
    result = CliRunner().invoke(app, [])
    assert "datasets" in result.output
    assert "report" in result.output


def test_python_m_lkge_is_lkge() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lkge", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"lkge {lkge.__version__}\n"


def test_help_answers_within_a_second() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "lkge", "--help"], capture_output=True, check=True)
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 1.0


def test_an_unknown_option_is_explained_without_a_traceback() -> None:
    result = CliRunner().invoke(app, ["run", "--dimension", "3"])
    assert result.exit_code == 2
    assert "--dimension" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_terminal_without_unicode_gets_replacements() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lkge", "run", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert b"--learning-rate" in done.stdout
