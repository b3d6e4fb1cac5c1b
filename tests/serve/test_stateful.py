"""Sequences of requests along the links of the schema: facts, their job, their version, queries.

`LKGE_HTTP_FUZZ` is the number of sequences, default 4, and `LKGE_HTTP_SEED` the first seed.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from tests.serve.helpers import BEARER, IDLE_LEARNER, threaded
from tests.serve.test_schema import OF_FILES

from lkge import living
from lkge.serve.limits import Limits
from lkge.store.reader import open_reader
from lkge.training.events import Event, VersionPublished

SEQUENCES, AT_ONCE = int(os.environ.get("LKGE_HTTP_FUZZ", "4")), 4
SEED = int(os.environ.get("LKGE_HTTP_SEED", "0"))
OF_A_GRAPH = 200
"""Sequences that one graph gets, at most."""
SECONDS_OF_A_VERSION = 0.5
"""The learner does not take all of the time."""

VERSIONED = ("/entities", "/neighbourhood", "/predict", "/score", "/similar")


class LearningThread(threading.Thread):
    """Learns what waits, in this process, until it is stopped or fails; no version too soon after
    the last one."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.stopped = folder, threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stopped.wait(0.1):
                living.open(self.folder).learn_waiting(self.paused)
        except KeyboardInterrupt:
            return
        except Exception as error:
            self.error = error

    def paused(self, event: Event) -> None:
        if isinstance(event, VersionPublished) and self.stopped.wait(SECONDS_OF_A_VERSION):
            raise KeyboardInterrupt

    def end(self) -> None:
        self.stopped.set()
        self.join(120)


@pytest.fixture
def service(learned: Path, tmp_path: Path) -> Iterator[tuple[str, LearningThread]]:
    folder = shutil.copytree(learned, tmp_path / "world")
    limits = Limits(waiting_batches=10_000)
    with threaded(folder, learner_command=IDLE_LEARNER, limits=limits) as url:
        thread = LearningThread(folder)
        thread.start()
        try:
            yield url, thread
        finally:
            thread.end()


@pytest.mark.parametrize("first", range(0, SEQUENCES, OF_A_GRAPH))
def test_any_sequence_of_requests_is_answered_as_the_schema_says(
    service: tuple[str, LearningThread], first: int
) -> None:
    url, thread = service
    schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
    schema = schema.exclude(path=list(OF_FILES))
    schema.config.generation.update(modes=[schemathesis.GenerationMode.POSITIVE])
    machine: Any = schema.as_state_machine()
    followed, failures, versions = set[str](), list[Exception](), list[int]()

    class Sequence(machine):  # type: ignore[misc]
        """Every response is checked by schemathesis; besides, versions only rise."""

        def get_call_kwargs(self, case: Any) -> dict[str, Any]:
            return {"headers": BEARER, "timeout": 60}

        def validate_response(self, response: Any, case: Any, **options: Any) -> None:
            try:
                super().validate_response(response, case, **options)
            except Exception as failure:
                failures.append(failure)
                raise
            assert thread.error is None
            followed.add(f"{case.method} {case.path}")
            if response.status_code == 200 and case.path in VERSIONED:
                versions.append(response.json()["version"])

    for number in range(first, min(SEQUENCES, first + OF_A_GRAPH), AT_ONCE):
        with suppress(FlakyStrategyDefinition):  # the service does not forget between sequences
            seed(SEED + number)(Sequence).run(
                settings=settings(
                    max_examples=AT_ONCE,
                    stateful_step_count=8,
                    deadline=None,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
    assert failures == []
    assert versions == sorted(versions)
    assert {"POST /facts", "GET /jobs/{number}", "POST /predict"} <= followed
    thread.end()
    assert thread.error is None
    assert open_reader(thread.folder).version > 1
