from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.helpers import BEARER, IDLE_LEARNER, TOKEN, running_client

from lkge.errors import SettingsError
from lkge.serve.app import create_app
from lkge.serve.auth import QUESTIONS, TokenAuth, is_loopback
from lkge.serve.errors import PROBLEM, HTTPProblem
from lkge.serve.limits import Limits

PUBLIC = {"host": "0.0.0.0", "learner_command": IDLE_LEARNER}


def auth(token: str | None = TOKEN, open_reading: bool = True) -> TokenAuth:
    async def no_app(*_: object) -> None:
        raise AssertionError

    return TokenAuth(no_app, token, open_reading)


def basic(password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'me:{password}'.encode()).decode()}"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.7", False),
        ("example.org", False),
    ],
)
def test_loopback_hosts(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", TOKEN, f"Basic {TOKEN}"]
)
def test_writing_needs_the_token(given: str) -> None:
    with pytest.raises(HTTPProblem) as refused:
        auth().check("POST", "/facts", given)
    assert refused.value.problem.status == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/new-route"), ("POST", "/facts/"), ("PUT", "/predict"), ("DELETE", "/jobs/1")],
)
def test_a_request_that_is_not_known_to_read_needs_the_token(method: str, path: str) -> None:
    with pytest.raises(HTTPProblem) as refused:
        auth().check(method, path, "")
    assert refused.value.problem.status == 401


def test_each_post_route_that_needs_no_token_is_a_question(learned: Path) -> None:
    paths = create_app(learned, token=TOKEN).openapi()["paths"]
    posts = {path for path, operations in paths.items() if "post" in operations}
    assert posts >= QUESTIONS
    assert posts - QUESTIONS == {"/facts", "/edit", "/relearn"}


def test_on_loopback_the_token_allows_writing_and_reading_needs_none() -> None:
    auth().check("POST", "/facts", f"bearer {TOKEN}")
    auth().check("POST", "/predict", "")


def test_without_a_token_nothing_is_written() -> None:
    with pytest.raises(HTTPProblem) as refused:
        auth(None).check("POST", "/facts", "Bearer ")
    assert refused.value.problem.status == 403


def test_a_token_in_other_letters_is_refused_and_not_an_error() -> None:
    with pytest.raises(HTTPProblem):
        auth(open_reading=False).check("GET", "/", "Bearer töken")


def test_on_a_public_host_every_request_needs_the_token(learned: Path) -> None:
    with running_client(learned, **PUBLIC) as client:
        for path in ("/", "/health", "/static/main.js", "/openapi.json", "/nowhere"):
            refused = client.get(path)
            assert refused.status_code == 401
            assert refused.headers["content-type"] == PROBLEM
            assert "Basic" in refused.headers["www-authenticate"]
        assert client.get("/health", headers=BEARER).status_code == 200
        assert client.get("/", headers=basic(TOKEN)).status_code == 200
        assert client.get("/", headers=basic("wrong")).status_code == 401
        assert client.get("/", headers={"Authorization": "Basic ***"}).status_code == 401


def test_a_password_is_not_enough_to_write(learned: Path) -> None:
    with running_client(learned, **PUBLIC) as client:
        refused = client.post("/facts", json={"facts": [["a", "b", "c"]]}, headers=basic(TOKEN))
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"


def test_on_a_public_host_there_is_no_service_without_a_token(learned: Path) -> None:
    with pytest.raises(SettingsError, match="token"):
        create_app(learned, host="0.0.0.0")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""]
)
def test_on_loopback_another_name_is_refused(learned: Path, host: str) -> None:
    with running_client(learned, learner_command=IDLE_LEARNER) as client:
        refused = client.get("/health", headers={"host": host})
        assert refused.status_code == 421
        assert refused.headers["content-type"] == PROBLEM


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]", "[::1]:80"])
def test_on_loopback_its_names_are_served(learned: Path, host: str) -> None:
    with running_client(learned, learner_command=IDLE_LEARNER) as client:
        assert client.get("/health", headers={"host": host}).status_code == 200


def test_a_body_that_says_it_is_too_large_is_not_read(learned: Path) -> None:
    with running_client(
        learned, learner_command=IDLE_LEARNER, limits=Limits(body_bytes=100)
    ) as client:
        refused = client.post("/score", json={"facts": [["a" * 200, "b", "c"]]})
        assert refused.status_code == 413
        assert refused.headers["content-type"] == PROBLEM


def test_a_body_that_grows_too_large_is_cut(learned: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"facts": [["'
        for _ in range(20):
            yield b"a" * 10
        yield b'", "b", "c"]]}'

    with running_client(
        learned, learner_command=IDLE_LEARNER, limits=Limits(body_bytes=100)
    ) as client:
        headers = {"Content-Type": "application/json"}
        assert client.post("/score", content=pieces(), headers=headers).status_code == 413


def test_a_request_above_the_concurrency_limit_gets_the_time_to_retry(
    learned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> list[str]:
        begun.set()
        go_on.wait(20)
        return []

    with running_client(learned, learner_command=IDLE_LEARNER, limits=Limits(requests=1)) as client:
        monkeypatch.setattr("lkge.store.reader.Reader.entities", slow)
        first = threading.Thread(target=lambda: client.get("/entities"))
        first.start()
        assert begun.wait(20)
        refused = client.get("/health")
        go_on.set()
        first.join()
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/health").status_code == 200


def test_an_unexpected_error_is_a_problem_without_its_message(
    learned: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> list[str]:
        raise RuntimeError("the password is swordfish")

    with running_client(learned, learner_command=IDLE_LEARNER) as client:
        monkeypatch.setattr("lkge.store.reader.Reader.entities", broken)
        answer = client.get("/entities")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == PROBLEM
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "swordfish" not in answer.text
        assert "swordfish" in caplog.text
        assert 'route="/entities",status="500"' in client.get("/metrics").text
