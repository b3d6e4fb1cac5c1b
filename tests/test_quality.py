"""Quality gates on the embedded graph: the commands of `make demo`, each run once."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import lkge
from lkge import api

MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text("utf-8")
DEMO = re.search(r"^demo:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
COMMANDS = re.findall(r"^\t\$\(BIN\)/lkge (.*)$", DEMO[1] if DEMO else "", re.MULTILINE)

LEAST = {"evergreen": {"paper": 0.48, "current": 0.455}, "lkge": {"paper": 0.25}}
"""Run folder of the demo → the least MRR after the last snapshot, by protocol."""


def test_the_demo_runs_the_default_and_lkge() -> None:
    runs = [command for command in COMMANDS if command.startswith("run ")]
    assert runs[0] == "run --dataset brick --out $(DEMO)/evergreen", "no flag: the default method"
    assert [command.rpartition("/")[2] for command in runs] == list(LEAST)


@pytest.mark.parametrize("name", LEAST)
def test_a_run_of_the_demo_reaches_its_mrr(name: str, tmp_path: Path) -> None:
    (command,) = (each for each in COMMANDS if each.endswith(f"--out $(DEMO)/{name}"))
    done = subprocess.run(
        [sys.executable, "-m", "lkge", *shlex.split(command.replace("$(DEMO)", str(tmp_path)))],
        env={**os.environ, "PYTHONPATH": str(Path(lkge.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    protocols = api.opened(tmp_path / name).results.protocols
    reached = {protocol: protocols[protocol].final.mrr for protocol in LEAST[name]}
    assert all(reached[protocol] >= least for protocol, least in LEAST[name].items()), reached
