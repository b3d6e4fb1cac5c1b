from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.made import BEARER, NOBODY, TOKEN, client

from lkge.errors import SettingsError
from lkge.serve.app import create_app
from lkge.serve.guard import Access, is_loopback
from lkge.serve.limits import Limits
from lkge.serve.problems import PROBLEM, Refusal

ELSEWHERE = {"host": "0.0.0.0", "learner": NOBODY}


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
def test_what_only_this_machine_can_reach(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer wrong", TOKEN, f"Basic {TOKEN}"]
)
def test_writing_needs_the_token(given: str) -> None:
    with pytest.raises(Refusal) as refused:
        Access(TOKEN, open_reading=True).check("POST", "/facts", given)
    assert refused.value.problem.status == 401


def test_who_has_the_token_may_write_and_all_may_read_on_loopback() -> None:
    access = Access(TOKEN, open_reading=True)
    access.check("POST", "/facts", f"bearer {TOKEN}")
    access.check("POST", "/predict", "")


def test_without_a_token_nothing_is_written() -> None:
    with pytest.raises(Refusal) as refused:
        Access(None, open_reading=True).check("POST", "/facts", "Bearer ")
    assert refused.value.problem.status == 403


def test_a_token_in_other_letters_is_refused_and_not_an_error() -> None:
    with pytest.raises(Refusal):
        Access(TOKEN, open_reading=False).check("GET", "/", "Bearer töken")


def test_elsewhere_every_request_needs_the_token(learned: Path) -> None:
    with client(learned, **ELSEWHERE) as asking:
        for path in ("/", "/health", "/static/main.js", "/openapi.json", "/nowhere"):
            refused = asking.get(path)
            assert refused.status_code == 401
            assert refused.headers["content-type"] == PROBLEM
            assert "Basic" in refused.headers["www-authenticate"]
        assert asking.get("/health", headers=BEARER).status_code == 200
        assert asking.get("/", headers=basic(TOKEN)).status_code == 200
        assert asking.get("/", headers=basic("wrong")).status_code == 401
        assert asking.get("/", headers={"Authorization": "Basic ***"}).status_code == 401


def test_a_password_is_not_enough_to_write(learned: Path) -> None:
    with client(learned, **ELSEWHERE) as asking:
        refused = asking.post("/facts", json={"facts": [["a", "b", "c"]]}, headers=basic(TOKEN))
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"


def test_elsewhere_there_is_no_service_without_a_token(learned: Path) -> None:
    with pytest.raises(SettingsError, match="token"):
        create_app(learned, host="0.0.0.0")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""]
)
def test_on_loopback_another_name_is_refused(learned: Path, host: str) -> None:
    with client(learned, learner=NOBODY) as asking:
        refused = asking.get("/health", headers={"host": host})
        assert refused.status_code == 421
        assert refused.headers["content-type"] == PROBLEM


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]", "[::1]:80"])
def test_on_loopback_its_names_are_served(learned: Path, host: str) -> None:
    with client(learned, learner=NOBODY) as asking:
        assert asking.get("/health", headers={"host": host}).status_code == 200


def test_a_body_that_says_it_is_too_large_is_not_read(learned: Path) -> None:
    with client(learned, learner=NOBODY, limits=Limits(body_bytes=100)) as asking:
        refused = asking.post("/score", json={"facts": [["a" * 200, "b", "c"]]})
        assert refused.status_code == 413
        assert refused.headers["content-type"] == PROBLEM


def test_a_body_that_grows_too_large_is_cut(learned: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"facts": [["'
        for _ in range(20):
            yield b"a" * 10
        yield b'", "b", "c"]]}'

    with client(learned, learner=NOBODY, limits=Limits(body_bytes=100)) as asking:
        headers = {"Content-Type": "application/json"}
        assert asking.post("/score", content=pieces(), headers=headers).status_code == 413


def test_who_finds_no_seat_is_told_when_to_come_again(
    learned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> list[str]:
        begun.set()
        go_on.wait(20)
        return []

    with client(learned, learner=NOBODY, limits=Limits(requests=1)) as asking:
        monkeypatch.setattr("lkge.store.reader.Reader.entities", slow)
        first = threading.Thread(target=lambda: asking.get("/entities"))
        first.start()
        assert begun.wait(20)
        refused = asking.get("/health")
        go_on.set()
        first.join()
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert asking.get("/health").status_code == 200


def test_what_breaks_is_a_problem_that_tells_no_secrets(
    learned: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> list[str]:
        raise RuntimeError("the password is swordfish")

    with client(learned, learner=NOBODY) as asking:
        monkeypatch.setattr("lkge.store.reader.Reader.entities", broken)
        answer = asking.get("/entities")
        assert answer.status_code == 500
        assert answer.headers["content-type"] == PROBLEM
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "swordfish" not in answer.text
        assert "swordfish" in caplog.text
        assert 'route="/entities",status="500"' in asking.get("/metrics").text
