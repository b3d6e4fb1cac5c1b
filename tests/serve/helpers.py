"""A small living graph, and its service: in this process, or in a child process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi.testclient import TestClient

import lkge
from lkge import living
from lkge.data.formats import Triple
from lkge.serve.app import create_app
from lkge.serve.server import address, listen, server_config
from lkge.store import records
from lkge.store.calibration import Calibration
from lkge.store.reliability import reliability
from lkge.store.versions import Store
from lkge.testing import paper_config

TOKEN = "a token for tests"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
HERE = "http://127.0.0.1"
IDLE_LEARNER = (sys.executable, "-c", "import time; time.sleep(60)")
"""A child process that learns nothing."""


def world() -> list[Triple]:
    """Thirty cities in six countries, each with neighbours."""
    facts = []
    for city in range(30):
        name, country = f"City {city:02}", f"Country {city % 6}"
        facts += [(name, "lies in", country), (name, "near to", f"City {(city + 6) % 30:02}")]
        if city < 6:
            facts.append((name, "capital of", country))
    return facts


def more(start: int, size: int = 4) -> list[Triple]:
    """Facts of cities that nobody knows yet."""
    return [(f"New City {start + n:02}", "lies in", "Country 1") for n in range(size)]


def learned_graph(folder: Path) -> None:
    """The world as versions 0, which is empty, and 1."""
    config = paper_config(dim=8, batch_size=64, learning_rate=0.02, max_epochs=5)
    living.init(folder, config=config).add(world(), valid=0.2)


def set_reliability(folder: Path) -> None:
    """Give version 1 a calibration with a reliability of three answers near 0 and two at 0.5."""
    store = Store(folder)
    given, true = np.array([0.1, 0.1, 0.1, 0.5, 0.5]), np.array([False, False, True, True, True])
    found = reliability(5, given, true, np.ones(5))
    calibration = Calibration(facts=20, reliability=found)
    manifest = replace(store.manifest(1), calibration=calibration)
    records.write_record(store.manifest_file(1), manifest)


@contextmanager
def running_client(kg: Path, **options: Any) -> Iterator[TestClient]:
    """The service in this process."""
    with TestClient(create_app(kg, **{"token": TOKEN, **options}), base_url=HERE) as client:
        yield client


@contextmanager
def served(
    kg: Path, *words: str, token: str | None = TOKEN, code: int = 0
) -> Iterator[tuple[str, str]]:
    """`lkge serve` in a process of its own: its address and what it said. It must end well, or with
    this code."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(lkge.__file__).parents[1])
    environment.pop("LKGE_TOKEN", None)
    if token is not None:
        environment["LKGE_TOKEN"] = token
    command = [sys.executable, "-m", "lkge", "serve", str(kg), "--port", "0", *words]
    with subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE) as process:
        try:
            said = _until_served(process)
            yield said.rsplit(" at ", 1)[1].strip().rstrip("/"), said
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == code
        finally:
            process.kill()


@contextmanager
def threaded(kg: Path, **options: Any) -> Iterator[str]:
    """The service on a socket, in a thread of this process: its address."""
    app = create_app(kg, **{"token": TOKEN, **options})
    server = uvicorn.Server(server_config(app, app.state.service.limits))
    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield address("127.0.0.1", listening).rstrip("/")
    finally:
        app.state.service.changes.close()
        server.should_exit = True
        thread.join(30)


def _until_served(process: subprocess.Popen[str]) -> str:
    said = ""
    assert process.stderr
    for line in process.stderr:
        said += line
        if re.match(r"serving .* at https?://", line):
            return said
    raise AssertionError(f"it did not start: {said}")


def wait_until(holds: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
