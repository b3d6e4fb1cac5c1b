from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest
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


def test_help_takes_half_a_second_of_the_processor_at_most() -> None:
    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "lkge", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(2)) < 0.5


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


@pytest.mark.parametrize(
    ("line", "completed"),
    [("lkge pre", "predict"), ("lkge predict KG --in", "--in-range"), ("lkge bench st", "")],
)
def test_a_shell_completes(line: str, completed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script of `lkge --install-completion` calls lkge with these variables."""
    place = str(len(line.split()) - 1)
    asked = {"_LKGE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": place}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in asked.items():
            patched.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            app(prog_name="lkge")
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == completed


def test_a_similar_command_is_proposed() -> None:
    result = CliRunner().invoke(app, ["Predict"])
    assert result.exit_code == 2
    assert "Did you mean 'predict'" in " ".join(result.stderr.split())
