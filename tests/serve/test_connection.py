"""Clients that send nothing, or slowly, or do not read: they end, and others are served."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import uvicorn
from tests.serve.helpers import IDLE_LEARNER, threaded

from lkge.serve.connection import connection_class
from lkge.serve.limits import Limits
from lkge.serve.server import listen

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SHORT = Limits(head_seconds=0.3, keep_alive_seconds=1)


def connect(url: str) -> socket.socket:
    host, port = urlsplit(url).hostname, urlsplit(url).port
    assert port
    return socket.create_connection((host, port), timeout=20)


def until_closed(client: socket.socket) -> bytes:
    """All that comes until the server ends the connection."""
    found = b""
    try:
        while piece := client.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


def trickle(client: socket.socket, data: bytes) -> bool:
    """Send a byte now and then; whether the server ended the connection before the last one."""
    try:
        for place in range(len(data)):
            client.send(data[place : place + 1])
            time.sleep(0.05)
    except OSError:
        return True
    return False


@contextmanager
def serving(kg: Path, limits: Limits) -> Iterator[str]:
    with threaded(kg, learner_command=IDLE_LEARNER, limits=limits) as url:
        yield url


def test_a_connection_without_a_request_ends(learned: Path) -> None:
    with serving(learned, SHORT) as url, connect(url) as silent, connect(url) as slow:
        assert until_closed(silent) == b""
        assert trickle(slow, GET)


def test_a_connection_that_is_kept_ends_if_the_next_request_comes_slowly(learned: Path) -> None:
    with serving(learned, SHORT) as url:
        client = HTTPConnection(urlsplit(url).netloc, timeout=20)
        for _ in range(2):
            client.request("GET", "/health")
            assert client.getresponse().read()
        assert trickle(client.sock, GET)
        client.close()


def test_many_idle_connections_are_no_outage(learned: Path) -> None:
    limits = Limits(connections=20, head_seconds=600.0)
    with serving(learned, limits) as url, ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(connect(url))
            with urlopen(f"{url}/health", timeout=20) as response:
                assert response.status == 200


@contextmanager
def held_bodies(url: str, count: int, head: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(url)) for _ in range(count)]
        for client in clients:
            client.sendall(POST + head)
        yield clients


def test_slow_bodies_take_no_seat(learned: Path) -> None:
    head = b"Content-Length: 100\r\n\r\n{"
    with (
        serving(learned, Limits(requests=2, body_grace=600.0, body_seconds=600.0)) as url,
        held_bodies(url, 5, head),
        urlopen(f"{url}/health", timeout=20) as response,
    ):
        assert response.status == 200


def test_a_body_that_comes_too_slowly_is_refused(learned: Path) -> None:
    limits = Limits(body_grace=0.3, body_rate=1000, keep_alive_seconds=1, head_seconds=0.3)
    with (
        serving(learned, limits) as url,
        held_bodies(url, 1, b"Content-Length: 1000\r\n\r\n") as [client],
    ):
        assert trickle(client, b" " * 400)
        assert b" 408 " in until_closed(client)[:20]


def test_the_size_of_all_slow_bodies_is_limited(learned: Path) -> None:
    head = b"Content-Length: 50000\r\n\r\n" + b" " * 40000
    with (
        serving(learned, Limits(unread_bytes=100_000)) as url,
        held_bodies(url, 3, head) as clients,
    ):
        time.sleep(0.3)
        for client in clients:
            client.settimeout(0.5)
        answers = [_received(client) for client in clients]
        assert [answer[:13] for answer in answers if answer] == [b"HTTP/1.1 503 "]


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(65536)
    except TimeoutError:
        return b""


@pytest.mark.parametrize("headers", [[], [(b"connection", b"close")]])
def test_a_client_that_does_not_read_its_response_is_cut_off(headers: list[Any]) -> None:
    sent = threading.Event()

    async def large(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(50_000_000)})
        sent.set()

    config = uvicorn.Config(
        large,
        http=connection_class(SHORT),
        lifespan="off",
        log_config=None,
        timeout_keep_alive=1,
    )
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            with socket.create_connection(listening.getsockname(), timeout=20) as client:
                client.sendall(GET)
                assert sent.wait(20)
                for _ in range(200):
                    if not server.server_state.connections:
                        break
                    time.sleep(0.1)
                assert not server.server_state.connections
        finally:
            server.should_exit = True
            thread.join(30)
