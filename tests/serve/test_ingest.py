from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import BEARER, IDLE_LEARNER, more, running_client, wait_until

from lkge import living
from lkge.serve import service as service_module
from lkge.serve.errors import PROBLEM
from lkge.serve.limits import Limits
from lkge.store import inbox
from lkge.store.locks import writing
from lkge.store.versions import Store

FAILING_LEARNER = (sys.executable, "-c", "raise SystemExit('error: no luck today')")


def post(client: TestClient, facts: list[Any], **others: Any) -> Any:
    return client.post("/facts", json={"facts": facts, **others}, headers=BEARER)


def version_of(client: TestClient) -> Callable[[], int]:
    return lambda: int(client.get("/health").json()["version"])


def events_of(client: TestClient, path: str) -> list[dict[str, Any]]:
    with client.stream("GET", path) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        return [
            json.loads(line.removeprefix("data: "))
            for line in response.iter_lines()
            if line.startswith("data: ")
        ]


def test_facts_become_a_version_that_answers(kg: Path) -> None:
    with running_client(kg) as client:
        accepted = post(client, more(0), valid=0.0, retract=[["City 03", "lies in", "Country 3"]])
        assert accepted.status_code == 202
        assert accepted.headers["location"] == "/jobs/2"
        job = accepted.json()
        assert (job["id"], job["status"], job["facts"], job["retracted"]) == (2, "waiting", 4, 1)
        assert [batch.number for batch in inbox.waiting(Store(kg))] == [2]

        states = events_of(client, "/jobs/2/events")
        assert [one["id"] for one in states] == [2] * len(states)
        assert states[-1]["status"] == "done"
        assert states[-1]["version"] == 2
        assert any(one["status"] == "learning" for one in states)

        assert client.get("/jobs/2").json() == states[-1]
        assert [one["id"] for one in client.get("/jobs").json()["jobs"]] == [2, 1]
        assert version_of(client)() == 2
        body = {"object": "Country 1", "relation": "lies in", "k": 100}
        found = client.post("/predict", json=body).json()
        assert found["version"] == 2
        assert "New City 00" in {one["entity"] for one in found["answers"] if one["known"]}
        facts = [["City 03", "lies in", "Country 3"]]
        assert not client.post("/score", json={"facts": facts}).json()["facts"][0]["known"]
        assert "\nlkge_swaps_total 1.0\n" in client.get("/metrics").text


def test_batches_that_waited_are_learned_at_the_start(kg: Path) -> None:
    inbox.accept(Store(kg), more(0), source="before")
    with running_client(kg) as client:
        wait_until(lambda: version_of(client)() == 2)
        wait_until(lambda: not client.get("/health").json()["jobs"])


def test_a_version_that_another_process_published_is_taken_up(kg: Path) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        living.open(kg).add(more(0), valid=0.0)
        wait_until(lambda: version_of(client)() == 2)
        assert client.get("/jobs/2").json()["status"] == "done"


def test_a_request_keeps_the_version_that_it_began_with(kg: Path) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        app: Any = client.app
        reader = app.state.service.reader
        living.open(kg).add(more(0), valid=0.0)
        wait_until(lambda: version_of(client)() == 2)
        assert reader.version == 1
        assert reader.predict(subject="City 03", relation="lies in", k=1)
        assert app.state.service.reader is not reader


def test_while_another_process_writes_batches_wait(kg: Path) -> None:
    with (
        writing(Store(kg), "a test"),
        running_client(kg, learner_command=FAILING_LEARNER) as client,
    ):
        post(client, more(0))
        time.sleep(1.5)
        assert client.get("/jobs/2").json()["status"] == "waiting"


def test_a_job_that_fails_says_why_and_its_facts_stay(
    kg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_client(kg, learner_command=FAILING_LEARNER) as client:
        post(client, more(0))
        states = events_of(client, "/jobs/2/events")
        assert (states[-1]["status"], states[-1]["detail"]) == ("failed", "error: no luck today")
        assert client.get("/health").json()["status"] == "degraded"
        assert version_of(client)() == 1
        assert "\nlkge_jobs_failed 1.0\n" in client.get("/metrics").text
    assert [batch.added for batch in inbox.waiting(Store(kg))] == [more(0)]


def test_a_job_that_failed_is_tried_again(
    kg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "FIRST_RETRY", 0.1)
    mark = tmp_path / "tried"
    once = (
        "import pathlib, sys\n"
        "from lkge.serve.learner import learn\n"
        f"mark = pathlib.Path({str(mark)!r})\n"
        "if not mark.exists(): mark.touch(); sys.exit('error: not yet')\n"
        f"learn({str(kg)!r})\n"
    )
    with running_client(kg, learner_command=(sys.executable, "-c", once)) as client:
        post(client, more(0))
        wait_until(lambda: version_of(client)() == 2)
        assert client.get("/health").json()["status"] == "ok"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"facts": [], "retract": []},
        {"facts": [["a", "b"]]},
        {"facts": [["a", "b⁻¹", "c"]]},
        {"facts": [[" ", "b", "c"]]},
        {"facts": [["\x1f", "b", "c"]]},
        {"facts": [["a", "b", "c"]], "valid": 0.9},
        {"facts": [["a", "b", "c"]], "unknown": 1},
    ],
)
def test_what_cannot_be_learned_is_refused_at_once(kg: Path, body: dict[str, Any]) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        response = client.post("/facts", json=body, headers=BEARER)
        assert response.status_code == 422
        assert response.headers["content-type"] == PROBLEM
    assert inbox.waiting(Store(kg)) == []


def test_without_the_token_nothing_is_accepted(kg: Path) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            response = client.post("/facts", json={"facts": more(0)}, headers=headers)
            assert response.status_code == 401
        assert client.post("/facts/", json={"facts": more(0)}).status_code == 401
    assert inbox.waiting(Store(kg)) == []


def test_too_many_waiting_batches_are_refused_for_a_while(kg: Path) -> None:
    with running_client(
        kg, learner_command=IDLE_LEARNER, limits=Limits(waiting_batches=2)
    ) as client:
        assert [post(client, more(n)).status_code for n in range(3)] == [202, 202, 503]
        assert int(post(client, more(3)).headers["retry-after"]) >= 1
        assert [one["id"] for one in client.get("/jobs").json()["jobs"]] == [3, 2, 1]


def test_a_full_disk_is_status_507(kg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        monkeypatch.setattr("os.fsync", full)
        response = post(client, more(0))
        monkeypatch.undo()
        assert response.status_code == 507
        assert response.headers["content-type"] == PROBLEM
        assert post(client, more(0)).status_code == 202


@pytest.mark.parametrize("number", ["77", "0", "-1", "x", str(2**70)])
def test_a_job_that_is_not_there(client: TestClient, number: str) -> None:
    for path in (f"/jobs/{number}", f"/jobs/{number}/events"):
        response = client.get(path)
        assert response.status_code == (404 if number == "77" else 422)
        assert response.headers["content-type"] == PROBLEM


class TestNothingNew:
    """A batch that leads to no version."""

    def test_its_job_ends_without_a_version_and_stays_known(self, kg: Path) -> None:
        known = [["City 03", "lies in", "Country 3"]]
        with running_client(kg) as client:
            assert post(client, known).status_code == 202
            states = events_of(client, "/jobs/2/events")
            assert (states[-1]["status"], states[-1]["version"]) == ("done", None)
            assert states[-1]["detail"] == "nothing new: the fact is known"
            assert version_of(client)() == 1
            wait_until(lambda: client.get("/health").json()["waiting"] == 0)
            assert post(client, more(0)).json()["id"] == 3, "its number is not given again"
            assert events_of(client, "/jobs/3/events")[-1]["version"] == 2
            assert client.get("/jobs/2").json() == states[-1]
            assert [job["id"] for job in client.get("/jobs").json()["jobs"]] == [3, 2, 1]
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            assert client.get("/jobs/2").json() == states[-1], "after a restart too"

    def test_a_batch_that_another_process_skipped_leaves_the_queue(self, kg: Path) -> None:
        inbox.accept(Store(kg), [("City 03", "lies in", "Country 3")])
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            wait_until(lambda: client.get("/health").json()["waiting"] == 1)
            living.open(kg).learn_waiting()
            wait_until(lambda: client.get("/health").json()["waiting"] == 0)
            assert client.get("/jobs/2").json()["status"] == "done"


class TestEdit:
    """POST /edit."""

    @staticmethod
    def edit(client: TestClient, **change: Any) -> Any:
        return client.post("/edit", json=change, headers=BEARER)

    def test_an_edit_becomes_a_version(self, kg: Path) -> None:
        with running_client(kg) as client:
            response = self.edit(client, merge=["City 03", "City 04"])
            assert response.status_code == 202
            assert response.json()["edit"] == "merge 'City 03' into 'City 04'"
            assert events_of(client, response.headers["location"] + "/events")[-1]["version"] == 2
            names = client.get("/entities", params={"prefix": "City 0", "limit": 100}).json()
            assert "City 03" not in names["names"]
            assert "City 03" not in client.get("/map").json()["entities"]
            moved = [["City 04", "lies in", "Country 3"]]
            assert client.post("/score", json={"facts": moved}).json()["facts"][0]["known"]
            last = client.get("/versions").json()["versions"][-1]
            assert (last["kind"], last["removed"], last["entities"]) == ("edit", 1, 36)
            assert client.get("/health").json()["entities"] == 35

    def test_names_are_checked_at_once_or_when_their_turn_comes(self, kg: Path) -> None:
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            unknown = self.edit(client, remove="City 99")
            assert unknown.status_code == 404
            assert "Did you mean" in unknown.json()["detail"]
            assert self.edit(client, rename=["City 03", "City 04"]).status_code == 422
            assert inbox.waiting(Store(kg)) == []
            post(client, more(0))
            assert self.edit(client, remove="City 99").status_code == 202
            assert self.edit(client, remove="New City 00").status_code == 202
        with running_client(kg) as client:
            wait_until(lambda: version_of(client)() == 3)
            jobs = {job["id"]: job for job in client.get("/jobs").json()["jobs"]}
            assert jobs[3]["status"] == "failed"
            assert "no entity named 'City 99'" in jobs[3]["detail"]
            assert (jobs[4]["status"], jobs[4]["version"]) == ("done", 3)
            assert client.get("/health").json()["status"] == "ok"

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"remove": None},
            {"rename": ["a"]},
            {"merge": ["City 03", " "]},
            {"rename_relation": ["lies in", "in⁻¹"]},
            {"remove": "City 03", "merge": ["City 03", "City 04"]},
        ],
    )
    def test_what_is_no_edit_is_refused(self, client: TestClient, body: dict[str, Any]) -> None:
        assert client.post("/edit", json=body, headers=BEARER).status_code == 422

    def test_it_needs_the_token(self, client: TestClient) -> None:
        assert client.post("/edit", json={"remove": "City 03"}).status_code == 401


def test_versions_have_their_tags(kg: Path) -> None:
    living.open(kg).tag("first-import")
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        listed = client.get("/versions").json()["versions"]
        assert [one["tags"] for one in listed] == [[], ["first-import"]]
