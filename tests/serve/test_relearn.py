"""Relearning as a job of the service, and the verdict in its answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import BEARER, IDLE_LEARNER, more, running_client, wait_until

from lkge import living
from lkge.serve.errors import PROBLEM
from lkge.serve.relearning import is_requested, request
from lkge.store.reader import open_reader
from lkge.store.versions import RELEARN_REQUEST
from lkge.testing import paper_config

FAILING_LEARNER = (sys.executable, "-c", "raise SystemExit('error: no luck today')")


def health(client: TestClient) -> Any:
    return client.get("/health").json()


def status_of(client: TestClient) -> str:
    return str(health(client)["relearn"]["status"])


def test_all_known_facts_become_a_version_while_the_old_one_answers(kg: Path) -> None:
    with running_client(kg) as client:
        before = health(client)
        assert before["relearn"] is None
        accepted = client.post("/relearn", headers=BEARER)
        assert accepted.status_code == 202
        assert accepted.json()["status"] in ("waiting", "learning")
        again = client.post("/relearn", headers=BEARER)
        assert again.status_code == 202
        body = {"subject": "City 03", "relation": "lies in"}
        assert client.post("/predict", json=body).json()["version"] == 1
        assert (kg / RELEARN_REQUEST).exists()
        wait_until(lambda: status_of(client) == "done")
        wait_until(lambda: not (kg / RELEARN_REQUEST).exists())
        after = health(client)
        assert after["relearn"] == {
            "status": "done",
            "progress": None,
            "version": 2,
            "detail": None,
        }
        assert (after["version"], after["facts"]) == (2, before["facts"])
        assert client.post("/predict", json=body).json()["version"] == 2
        entries = client.get("/versions").json()["versions"]
        assert [entry["kind"] for entry in entries] == ["init", "add", "relearn"]
        assert [job["id"] for job in client.get("/jobs").json()["jobs"]] == [1]


def test_batches_that_wait_are_learned_first(kg: Path) -> None:
    with running_client(kg) as client:
        client.post("/facts", json={"facts": more(0), "valid": 0.0}, headers=BEARER)
        client.post("/relearn", headers=BEARER)
        wait_until(lambda: status_of(client) == "done")
        kinds = [entry["kind"] for entry in client.get("/versions").json()["versions"]]
        assert kinds == ["init", "add", "add", "relearn"]


def test_a_request_outlives_the_service(kg: Path) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        assert health(client)["relearn"] is None
        client.post("/relearn", headers=BEARER)
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        assert status_of(client) in ("waiting", "learning")


def test_a_request_that_was_met_before_a_kill_is_not_met_again(kg: Path) -> None:
    request(kg, 1)
    assert is_requested(open_reader(kg))
    living.open(kg).relearn()
    assert not is_requested(open_reader(kg))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"after": "x"}', b"[" * 100_000])
def test_a_damaged_request_asks_for_nothing(kg: Path, content: bytes) -> None:
    (kg / RELEARN_REQUEST).write_bytes(content)
    assert not is_requested(open_reader(kg))


def test_a_failure_is_reported_and_not_repeated(kg: Path) -> None:
    with running_client(kg, learner_command=FAILING_LEARNER) as client:
        client.post("/relearn", headers=BEARER)
        wait_until(lambda: status_of(client) == "failed")
        state = health(client)
        assert state["relearn"]["detail"] == "error: no luck today"
        assert (state["status"], state["version"]) == ("degraded", 1)
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        assert health(client)["relearn"] is None
        assert client.post("/relearn", headers=BEARER).json()["status"] == "waiting"


def test_the_token_is_needed(kg: Path) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        assert client.post("/relearn").status_code == 401
        assert health(client)["relearn"] is None
    with running_client(kg, token=None, learner_command=IDLE_LEARNER) as client:
        assert client.post("/relearn", headers=BEARER).status_code == 403


def test_without_known_facts_it_is_refused(tmp_path: Path) -> None:
    living.init(tmp_path / "KG", config=paper_config(dim=8, max_epochs=1), known=False).add(more(0))
    with running_client(tmp_path / "KG", learner_command=IDLE_LEARNER) as client:
        refused = client.post("/relearn", headers=BEARER)
        assert refused.status_code == 409
        assert refused.headers["content-type"] == PROBLEM
        assert "keeps no known facts" in refused.json()["detail"]


@pytest.mark.parametrize("part", ["health", "versions"])
def test_the_verdict_and_its_figures_are_served(client: TestClient, part: str) -> None:
    if part == "health":
        found = health(client)["quality"]
        assert found["since"] == 1
        assert "too few to judge" in found["summary"]
    else:
        found = client.get("/versions").json()["versions"][-1]
        assert found["by_age"]["0"]["facts"] > 0
    assert (found["verdict"], found["causes"]) == ("unknown", [])
    nothing = dict.fromkeys(("mrr_before", "mrr", "hits10_before", "hits10", "error"))
    assert found["since_baseline"] == {"facts": 0, **nothing}
    assert found["residue"] == found["last_update"] == found["since_baseline"]
