"""`lkge serve` as a process: how it starts, swaps versions under load, and ends."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
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


def test_tokens_are_read_from_files(learned: Path, tmp_path: Path) -> None:
    for name in ("write", "read"):
        (tmp_path / name).write_text(f"for {name}\n")
    words = ("--token-file", str(tmp_path / "write"), "--read-token-file", str(tmp_path / "read"))
    with served(learned, *words, token=None) as (url, said):
        assert "token" not in said
        for token, status in (("for read", 403), ("for write", 422), ("no token", 401)):
            with pytest.raises(HTTPError) as refused:
                call(f"{url}/facts", {}, Authorization=f"Bearer {token}")
            assert refused.value.code == status


def test_https(learned: Path, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with served(learned, "--tls-cert", str(certificate), "--tls-key", str(key)) as (url, _):
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with urlopen(f"{url}/health", context=trusted, timeout=60) as response:
            assert response.status == 200


def make_certificate(folder: Path) -> tuple[Path, Path]:
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    return certificate, key


@pytest.mark.parametrize("words", [["--tls-cert", "C"], ["--tls-cert", "C", "--tls-key", "K"]])
def test_https_needs_a_certificate_and_its_key(
    learned: Path, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "C").write_text("no certificate")
    paths = [str(tmp_path / word) if word in "CK" else word for word in words]
    result = CliRunner().invoke(app, ["serve", str(learned), *paths])
    assert result.exit_code == 2
    assert "TLS" in result.stderr or "--tls-key" in result.stderr


def test_a_pipe_in_place_of_a_certificate_is_not_waited_for(learned: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "C")
    files = ["--tls-cert", str(tmp_path / "C"), "--tls-key", str(tmp_path / "C")]
    result = CliRunner().invoke(app, ["serve", str(learned), *files])
    assert result.exit_code == 2
    assert "not a regular file" in result.stderr


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
