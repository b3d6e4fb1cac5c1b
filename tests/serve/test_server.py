"""`lkge serve` as a process: how it starts, swaps versions under load, and ends."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.serve.helpers import BEARER, more, running_client, served, wait_until
from typer.testing import CliRunner

from lkge.cli import app
from lkge.serve.server import listen
from lkge.store import inbox
from lkge.store.reader import open_reader
from lkge.store.versions import Store

SWAPS = 5


def call(url: str, body: object = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json", **headers})
    with urlopen(request, timeout=60) as response:
        return json.load(response)


class QueryThread(threading.Thread):
    """Sends the same query in a loop and records the version of each answer."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url, self.go_on, self.versions = url, True, list[int]()
        self.errors = list[Exception]()

    def run(self) -> None:
        body = {"subject": "City 03", "relation": "lies in", "k": 3}
        while self.go_on:
            try:
                self.versions.append(call(f"{self.url}/predict", body)["version"])
            except Exception as error:
                self.errors.append(error)
            time.sleep(0.005)


def test_five_versions_are_swapped_in_and_no_request_is_dropped(kg: Path) -> None:
    with served(kg) as (url, _):
        threads = [QueryThread(url) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(SWAPS):
            call(f"{url}/facts", {"facts": more(10 * number), "valid": 0.0}, **BEARER)
        wait_until(lambda: call(f"{url}/health")["version"] == 1 + SWAPS)
        time.sleep(0.2)
        for thread in threads:
            thread.go_on = False
            thread.join(20)
        for thread in threads:
            assert thread.errors == []
            assert thread.versions == sorted(thread.versions)
            assert thread.versions[0] == 1
            assert thread.versions[-1] == 1 + SWAPS
        with urlopen(f"{url}/metrics") as response:
            text = response.read().decode()
        assert not re.search(r'status="(?!2)', text)
    assert open_reader(kg).version == 1 + SWAPS


def test_open_streams_end_when_the_service_is_stopped(kg: Path) -> None:
    with served(kg) as (url, said):
        assert "token" not in said, "a given token is not printed"
        stream = urlopen(f"{url}/events", timeout=30)
        assert stream.readline() == b"event: health\n"
        started = time.monotonic()
    assert time.monotonic() - started < 8
    assert b"data: " in stream.read()


def test_what_was_being_learned_when_the_service_stopped_is_learned_by_the_next(kg: Path) -> None:
    with served(kg) as (url, _):
        call(f"{url}/facts", {"facts": more(0), "valid": 0.0}, **BEARER)
        wait_until(lambda: call(f"{url}/jobs/2")["status"] != "waiting")
    if open_reader(kg).version == 1:
        assert [batch.number for batch in inbox.waiting(Store(kg))] == [2]
    with running_client(kg) as client:
        wait_until(lambda: client.get("/health").json()["version"] == 2)


def test_a_token_is_made_and_printed_once(kg: Path) -> None:
    with served(kg, token=None) as (url, said):
        [token] = re.findall(r"token for writing: (\S{20,})", said)
        facts = {"facts": more(0), "valid": 0.0}
        assert call(f"{url}/facts", facts, Authorization=f"Bearer {token}")["id"] == 2


def test_a_port_in_use_is_an_error(learned: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(app, ["serve", str(learned), "--port", port])
    assert result.exit_code == 2
    assert port in result.stderr
    assert "--port" in result.stderr


def test_a_folder_that_is_no_living_graph_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve", str(tmp_path)])
    assert result.exit_code == 2
    assert "lkge init" in result.stderr


def test_small_packets_are_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
        with client, accepted:
            assert accepted.proto == socket.IPPROTO_TCP
