from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import IDLE_LEARNER, learned_graph, running_client


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A living graph that no test changes."""
    folder = tmp_path_factory.mktemp("served") / "world"
    learned_graph(folder)
    return folder


@pytest.fixture
def kg(learned: Path, tmp_path: Path) -> Path:
    """A living graph of the test's own."""
    return shutil.copytree(learned, tmp_path / "world")


@pytest.fixture(scope="session")
def client(learned: Path) -> Iterator[TestClient]:
    """A service that never learns."""
    with running_client(learned, learner_command=IDLE_LEARNER) as one:
        yield one
