"""`docs/add-a-method.md` is run in processes of its own: as a script, and as a package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.training.made import made_graph

import lkge
from lkge.data.folders import write_growing_graph
from lkge.methods import Method

PAGE = (Path(__file__).parents[1] / "docs" / "add-a-method.md").read_text("utf-8")
SOURCE = Path(lkge.__file__).parents[1]
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def blocks(language: str) -> list[str]:
    """The code of the page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


BLOCKS = blocks("python")


def test_the_first_block_is_a_whole_method_in_about_fifty_lines() -> None:
    assert "@register" in BLOCKS[0]
    assert len(BLOCKS[0].splitlines()) <= 50


def test_every_block_runs(tmp_path: Path) -> None:
    script = tmp_path / "method.py"
    script.write_text("\n".join(BLOCKS), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    figures, complaint = done.stdout.splitlines()
    mrr, held, free = map(float, figures.split())
    assert mrr > 0.2
    assert held > free, "what holds old rows forgets less"
    assert complaint == "something is carried that `state` does not declare"


@pytest.fixture
def package(tmp_path: Path) -> dict[str, str]:
    """An environment in which the method of the page is an installed package."""
    ((name, place),) = tomllib.loads(blocks("toml")[0])["project"]["entry-points"][
        "lkge.methods"
    ].items()
    folder, module = place.partition(":")[0].split(".")
    about = tmp_path / f"{folder}-1.0.dist-info"
    for made in (tmp_path / folder, about):
        made.mkdir()
    (tmp_path / folder / f"{module}.py").write_text(BLOCKS[0], encoding="utf-8")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {folder}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[lkge.methods]\n{name} = {place}\n")
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": f"{SOURCE}:{tmp_path}"}


def test_a_method_of_a_package_has_its_settings_everywhere(
    tmp_path: Path, package: dict[str, str]
) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "lkge", *words],
            env=package,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )

    shown = json.loads(command("methods", "show", "pull", "--json").stdout)
    assert [each["name"] for each in shown["settings"]] == ["strength"]

    write_growing_graph(made_graph(), tmp_path / "graph")
    quick = ("--dim", "8", "--max-epochs", "1", "--jobs", "1", "--backend", "torch", "--json")
    tuned = command("tune", "--method", "pull", "--dataset", "graph", *quick)
    assert tuned.returncode == 0, tuned.stderr
    trials = json.loads(tuned.stdout)["trials"]
    tried = sorted(each["choice"]["method.strength"] for each in trials)
    assert tried == [0.01, 0.1, 1.0]
    refused = command("run", "--method", "ewc", "--set", "strength=1")
    assert refused.returncode == 2
    assert "it belongs to pull" in refused.stderr


def test_the_hooks_of_the_page_are_those_of_the_class() -> None:
    table = PAGE[PAGE.index("## Hooks") : PAGE.index("## Living graphs")]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    hooks = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(hooks) > 15
    assert [name for name in hooks if not hasattr(Method, name)] == []
