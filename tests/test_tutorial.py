"""`docs/tutorial.md` is run as it stands, block by block, in an empty folder; all commands but the
service are forks of one process."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.forking import forking

import lkge

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
PORT = "8080"
SERVE = "lkge serve"


class Block(NamedTuple):
    """A piece of the page that can be run."""

    language: str
    text: str

    @property
    def serves(self) -> bool:
        return self.text.startswith(SERVE)


BLOCKS = [
    Block(*found)
    for found in re.findall(
        r"^```(sh|python)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
]


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return str(listening.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """One in which `lkge` is the one under test, with one thread."""
    programs = tmp_path / "bin"
    programs.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(lkge.__file__).parents[1]),
        "NUMBA_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    with forking(tmp_path / "socket", environment) as program:
        (programs / "lkge").write_text(program)
        (programs / "lkge").chmod(0o755)
        yield environment


def words_of(block: Block) -> list[str]:
    if block.language == "python":
        return [sys.executable, "-c", block.text]
    return ["bash", "-euo", "pipefail", "-c", block.text]


def heed_ctrl_c() -> None:
    """A test run in the background ignores SIGINT, and what it starts would ignore it too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def serving(block: Block, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """The service runs within the block, and ends well with Ctrl-C."""
    _, *words = shlex.split(block.text)
    with subprocess.Popen(
        [sys.executable, "-m", "lkge", *words],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_ctrl_c,
    ) as process:
        try:
            assert process.stderr
            while "serving" not in (line := process.stderr.readline()):
                assert line, "the service ended by itself"
            yield
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
        finally:
            process.kill()


def run(blocks: list[Block], folder: Path, environment: dict[str, str]) -> list[str]:
    """What each block prints; whatever follows the service is run while it serves."""
    said: list[str] = []
    for position, block in enumerate(blocks):
        if block.serves:
            with serving(block, folder, environment):
                return [*said, "", *run(blocks[position + 1 :], folder, environment)]
        done = subprocess.run(
            words_of(block),
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    return said


def test_every_block_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    folder, port = tmp_path / "work", free_port()
    folder.mkdir()
    blocks = [Block(each.language, each.text.replace(PORT, port)) for each in BLOCKS]
    said = dict(zip(BLOCKS, run(blocks, folder, environment), strict=True))

    def printed(fragment: str) -> str:
        """What the block with these words prints."""
        (found,) = [text for block, text in said.items() if fragment in block.text]
        return found

    assert "Nothing was changed." in printed("--preview")
    assert "MRR of added facts" in printed("lkge init KG --dim")
    assert "known" in printed("lkge similar")
    assert printed("Hot_Water_Bump") == "as expected\n"
    assert len((folder / "answers.json").read_text("utf-8").splitlines()) > 10
    assert "Water_Pump" in printed("lkge score")
    assert "→" in printed("lkge add KG release-2.tsv")
    assert "1 retracted" in printed("--retract")
    assert "version 4 has" in printed("lkge.open")
    assert "version 7 is version 4 again" in printed("lkge rollback")
    assert "is done: version 8" in printed("urllib")
    assert printed("lkge export").endswith("entities.parquet\nrelations.parquet\n")


def test_the_page_goes_from_nothing_to_a_service() -> None:
    living = ("init", "predict", "similar", "score", "add", "edit", "log", "verify")
    commands = (*living, "rollback", "tag", "keep", "export")
    shell = "\n".join(block.text for block in BLOCKS if block.language == "sh")
    assert [name for name in commands if f"lkge {name} KG" not in shell] == []
    assert sum(block.serves for block in BLOCKS) == 1
