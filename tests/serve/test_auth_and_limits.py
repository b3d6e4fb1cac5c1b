from __future__ import annotations

import base64
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from tests.serve.helpers import BEARER, HERE, IDLE_LEARNER, TOKEN, running_client

from lkge.errors import SettingsError
from lkge.serve.app import create_app
from lkge.serve.auth import Access, Tokens, token_from
from lkge.serve.errors import PROBLEM
from lkge.serve.limits import Limits
from lkge.serve.origin import is_loopback

PUBLIC = {"host": "0.0.0.0", "learner_command": IDLE_LEARNER}


def check(token: str | None, given: str, read: str | None = None) -> Access:
    return Tokens(token, read).access(given)


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
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", "Bearer töken", TOKEN, f"Basic {TOKEN}"]
)
@pytest.mark.parametrize("token", [TOKEN, None])
def test_what_is_not_the_token_allows_nothing(token: str | None, given: str) -> None:
    assert check(token, given) == Access.NONE


def test_each_token_allows_what_it_is_for() -> None:
    assert check(TOKEN, f"bearer {TOKEN}") == Access.WRITE
    assert check(TOKEN, "Bearer for reading", "for reading") == Access.READ
    assert check(None, "Bearer for reading", "for reading") == Access.READ
    assert check(TOKEN, basic(TOKEN)["Authorization"]) == Access.READ, "as a password"
    assert check(TOKEN, basic("for reading")["Authorization"], "for reading") == Access.READ


@pytest.mark.parametrize("tokens", [("",), (" ",), ("töken",), ("a\nb",), ("same", "same")])
def test_a_token_that_cannot_be_sent_is_refused(tokens: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="token"):
        Tokens(*tokens)


def test_a_token_is_read_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", "from the environment")
    (tmp_path / "token").write_text(" secret\n")
    assert token_from(tmp_path / "token", "A_TOKEN") == "secret"
    assert token_from(None, "A_TOKEN") == "from the environment"
    assert token_from(None, "ANOTHER_TOKEN") is None


@pytest.mark.parametrize("content", [None, b"", b"\n", b"a\nb", b"\xff", b"a" * 5000])
def test_a_file_that_has_no_token_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=str(path)):
        token_from(path, "A_TOKEN")


def test_a_pipe_that_has_no_token_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    with pytest.raises(SettingsError, match="not a regular file"):
        token_from(tmp_path / "token", "A_TOKEN")


def test_a_route_that_says_nothing_needs_the_token_for_writing(learned: Path) -> None:
    """Deny by default: routes that are added later, to the application or by a router."""
    app = create_app(learned, token=TOKEN, learner_command=IDLE_LEARNER)
    router = APIRouter()

    @app.get("/forgotten")
    @router.put("/also-forgotten")
    async def forgotten() -> str:
        return "done"

    app.include_router(router)
    with TestClient(app, base_url=HERE) as client:
        for method, path in (("GET", "/forgotten"), ("PUT", "/also-forgotten")):
            assert client.request(method, path).status_code == 401
            assert client.request(method, path, headers=BEARER).status_code == 200


READING = {
    *(("post", path) for path in ("/predict", "/predict/batch", "/similar", "/score")),
    *(("post", path) for path in ("/predict/relations", "/predict/lines", "/suggest", "/explain")),
    *(("get", f"/{path}") for path in ("predict", "relations", "find")),
    *(("get", f"/jobs{rest}") for rest in ("", "/{number}", "/{number}/events")),
    *(("get", f"/{path}") for path in ("entities", "relations", "neighbourhood", "map")),
    *(("get", f"/{path}") for path in ("versions", "health", "metrics", "events")),
}


def test_the_routes_that_need_no_token_for_writing(learned: Path) -> None:
    paths = create_app(learned).openapi()["paths"]
    operations = {(method, path) for path, methods in paths.items() for method in methods}
    assert operations >= READING
    with running_client(learned, token=None, learner_command=IDLE_LEARNER) as client:
        for method, path in operations - READING:
            assert client.request(method, path).status_code == 403


def test_without_a_token_nothing_is_written(learned: Path) -> None:
    with running_client(learned, token=None, learner_command=IDLE_LEARNER) as client:
        for headers in ({}, BEARER, {"Authorization": "Bearer "}):
            refused = client.post("/facts", json={"facts": [["a", "b", "c"]]}, headers=headers)
            assert refused.status_code == 403
            assert "read-only" in refused.json()["detail"]


def test_with_a_token_for_reading_each_request_needs_one(learned: Path) -> None:
    reading = {"Authorization": "Bearer for reading"}
    with running_client(learned, read_token="for reading", learner_command=IDLE_LEARNER) as client:
        assert client.get("/health").status_code == 401
        assert client.get("/health", headers=BEARER).status_code == 200
        assert client.get("/health", headers=reading).status_code == 200
        refused = client.post("/facts", json={"facts": [["a", "b", "c"]]}, headers=reading)
        assert refused.status_code == 403
        assert "for reading" in refused.json()["detail"]


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
        assert refused.status_code == 403
        assert "Bearer" in refused.json()["detail"]


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


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "127.8.8.8", "[::1]", "[::1]:80"]
)
def test_on_loopback_its_names_are_served(learned: Path, host: str) -> None:
    with running_client(learned, learner_command=IDLE_LEARNER) as client:
        assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": "http://["},
    ],
)
@pytest.mark.parametrize("path", ["/", "/neighbourhood?entity=x"])
def test_what_a_page_of_another_site_asks_is_refused(
    client: TestClient, path: str, headers: dict[str, str]
) -> None:
    refused = client.get(path, headers=headers)
    assert refused.status_code == 403
    assert refused.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin", "origin": "https://name.of.a.proxy"},
        {"sec-fetch-site": "none"},
        {"origin": HERE},
        {},
    ],
)
def test_what_the_page_itself_asks_is_answered(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/health", headers=headers).status_code == 200


def test_a_link_of_another_site_leads_to_the_page_only(client: TestClient) -> None:
    names = ("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
    link = dict(zip(names, ("cross-site", "navigate", "document"), strict=True))
    assert client.get("/", headers=link).status_code == 200
    assert client.get("/map", headers=link).status_code == 403


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
