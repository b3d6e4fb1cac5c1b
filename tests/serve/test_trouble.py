"""A store that is locked, moved away or not sound: the service says so and writes nothing wrong."""

from __future__ import annotations

import copy
import dataclasses
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import (
    BEARER,
    IDLE_LEARNER,
    learned_graph,
    more,
    running_client,
    served,
    wait_until,
)

from lkge import living
from lkge.data.files import held
from lkge.errors import DamagedFile
from lkge.serve.app import create_app
from lkge.serve.errors import PROBLEM
from lkge.serve.limits import Limits
from lkge.store import inbox
from lkge.store.reader import Reader, open_reader
from lkge.store.versions import INBOX_LOCK, INFERENCE, Store

BODY = {"subject": "City 03", "relation": "lies in"}


def post(client: TestClient, start: int = 0) -> Any:
    return client.post("/facts", json={"facts": more(start), "valid": 0.0}, headers=BEARER)


def health(client: TestClient) -> Any:
    return client.get("/health").json()


class TestLockedInbox:
    """Another process holds the lock of the inbox and does not let go."""

    def test_a_batch_is_refused_in_time_and_all_else_goes_on(self, kg: Path) -> None:
        limits = Limits(accept_seconds=0.2, accepting=2)
        with running_client(kg, learner_command=IDLE_LEARNER, limits=limits) as client:
            with held(kg / INBOX_LOCK):
                refused = post(client)
                assert refused.status_code == 503
                assert int(refused.headers["retry-after"]) >= 1
                assert refused.headers["content-type"] == PROBLEM
                assert INBOX_LOCK in refused.json()["detail"]
                for path in ("/health", "/metrics", "/versions", "/jobs"):
                    assert client.get(path).status_code == 200
                assert client.post("/predict", json=BODY).status_code == 200
            assert post(client).json()["id"] == 2

    def test_batches_that_wait_for_it_do_not_stop_the_polling_of_versions(self, kg: Path) -> None:
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            service: Any = client.app
            entered = time.monotonic()
            with held(kg / INBOX_LOCK):
                service.state.service.active._inbox_pool.submit(time.sleep, 3)
                assert client.get("/versions").status_code == 200
            assert time.monotonic() - entered < 3
            living.open(kg).add(more(0), valid=0.0)
            wait_until(lambda: health(client)["version"] == 2)

    def test_a_killed_service_leaves_no_learner(self, kg: Path) -> None:
        """The learner waits for the lock, so it would not end by itself."""
        inbox.accept(Store(kg), more(0), source="test")
        with held(kg / INBOX_LOCK), served(kg, code=-signal.SIGKILL):
            wait_until(lambda: bool(_learners(kg)))
            [(child, parent)] = _learners(kg)
            os.kill(parent, signal.SIGKILL)
            wait_until(lambda: not _is_running(child), 30)


def _learners(kg: Path) -> list[tuple[int, int]]:
    """The processes that learn this graph, each with its parent."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().split(b"\0")
            parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if b"lkge.serve.learner" in words and os.fsencode(kg) in words:
            found.append((int(place.name), parent))
    return found


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


class TestReplacedFolder:
    """The folder is renamed, removed or replaced while it is served."""

    @pytest.fixture(params=["renamed", "replaced", "link"])
    def moved(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
        def move(kg: Path) -> Path:
            kg.rename(tmp_path / "elsewhere")
            if request.param == "replaced":
                learned_graph(kg)
            elif request.param == "link":
                shutil.copytree(tmp_path / "elsewhere", tmp_path / "copy")
                kg.symlink_to(tmp_path / "copy")
            return tmp_path / "elsewhere"

        return move

    def test_it_is_noticed_and_nothing_is_written(self, kg: Path, moved: Any) -> None:
        with running_client(kg) as client:
            assert health(client)["status"] == "ok"
            elsewhere = moved(kg)
            refused = post(client)
            assert refused.status_code == 503
            assert "renamed, replaced or removed" in refused.json()["detail"]
            wait_until(lambda: "renamed, replaced" in (health(client)["detail"] or ""))
            assert health(client)["status"] == "degraded"
            answer = client.post("/predict", json=BODY)
            assert answer.status_code == 200, "the version that is open still answers"
            if kg.exists():
                assert inbox.waiting(Store(kg)) == []
            assert inbox.waiting(Store(elsewhere)) == []

    def test_a_folder_that_is_put_back_is_used_again(self, kg: Path, tmp_path: Path) -> None:
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            kg.rename(tmp_path / "elsewhere")
            wait_until(lambda: health(client)["status"] == "degraded")
            (tmp_path / "elsewhere").rename(kg)
            wait_until(lambda: health(client)["status"] == "ok")
            assert health(client)["detail"] is None
            assert post(client).status_code == 202

    def test_the_learner_is_stopped(self, kg: Path, tmp_path: Path) -> None:
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            post(client)
            wait_until(lambda: client.get("/jobs/2").json()["status"] == "learning")
            kg.rename(tmp_path / "elsewhere")
            wait_until(lambda: client.get("/jobs/2").json()["status"] != "learning", 20)


class TestDamage:
    """A flipped bit in a file of the store."""

    @staticmethod
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

    @pytest.mark.filterwarnings("ignore::lkge.errors.DamageWarning")
    def test_an_older_version_answers_and_health_says_so(self, kg: Path) -> None:
        living.open(kg).add(more(0), valid=0.0)
        self.flip(Store(kg).paths(2, INFERENCE)[0])
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            assert client.post("/predict", json=BODY).json()["version"] == 1
            assert health(client)["status"] == "degraded"
            assert "--repair" in health(client)["detail"]

    @pytest.mark.filterwarnings("ignore::lkge.errors.DamageWarning")
    @pytest.mark.parametrize("name", ["log.jsonl", "store.json"])
    def test_a_file_that_no_answer_needs_stops_no_answer(self, kg: Path, name: str) -> None:
        self.flip(kg / name)
        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            assert client.post("/predict", json=BODY).status_code == 200
            assert health(client)["version"] == 1
            if name == "log.jsonl":
                refused = client.get("/versions")
                assert refused.status_code == 503
                assert "lkge verify --repair" in refused.json()["detail"]


class TestUnsoundTables:
    """Tables with values that are no finite numbers, as a disk or a bug may leave them."""

    @staticmethod
    def unsound(predictor: Any, rows: slice, value: float) -> Any:
        table = copy.deepcopy(predictor.entity)
        table[rows] = value
        return dataclasses.replace(predictor, entity=table)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("rows", [slice(None), slice(5, 6)])
    def test_answers_are_a_problem_that_says_so(
        self, learned: Path, rows: slice, value: float
    ) -> None:
        name = open_reader(learned).names.entity_name(5)
        query = {"subject": name, "relation": "lies in"}
        with running_client(learned, learner_command=IDLE_LEARNER) as client:
            app: Any = client.app
            reader = app.state.service.reader
            reader.predictor = self.unsound(reader.predictor, rows, value)
            responses = [
                client.post("/predict", json=query),
                client.post("/predict/batch", json={"queries": [query]}),
                client.post("/similar", json={"entity": name}),
                client.post("/score", json={"facts": [[name, "lies in", "Country 1"]]}),
                client.get("/map"),
            ]
            for response in responses:
                assert response.status_code == 503, response.text
                assert response.headers["content-type"] == PROBLEM
                assert "not finite" in response.json()["detail"]
            assert health(client)["status"] == "ok"

    def test_such_a_version_is_not_activated(
        self, kg: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sound = Reader._predictor

        def unsound(reader: Reader) -> Any:
            predictor = sound(reader)
            return self.unsound(predictor, slice(5, 6), np.nan) if reader.version else predictor

        with running_client(kg, learner_command=IDLE_LEARNER) as client:
            monkeypatch.setattr(Reader, "_predictor", unsound)
            living.open(kg).add(more(0), valid=0.0)
            wait_until(lambda: health(client)["status"] == "degraded")
            assert "not finite" in health(client)["detail"]
            assert client.post("/predict", json=BODY).json()["version"] == 1
        with pytest.raises(DamagedFile, match="lkge rollback"):
            create_app(kg)
