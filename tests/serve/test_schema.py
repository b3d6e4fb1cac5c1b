"""The service does what its OpenAPI schema says, whatever it is sent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.serve.helpers import BEARER, IDLE_LEARNER, threaded

WITH_INPUT = [
    ("POST", "/predict"),
    ("POST", "/predict/batch"),
    ("POST", "/similar"),
    ("POST", "/score"),
    ("POST", "/facts"),
    ("POST", "/facts/preview"),
    ("POST", "/facts/file"),
    ("POST", "/edit"),
    ("GET", "/entities"),
    ("GET", "/relations"),
    ("GET", "/neighbourhood"),
    ("GET", "/map"),
    ("GET", "/versions"),
    ("GET", "/jobs/{number}"),
]
EITHER = [("GET", "/predict")]
"""A URL cannot say that just one of two parameters must be given."""
LINES = [("POST", "/predict/lines")]
OF_FILES = ("/facts/preview", "/facts/file")
"""The schema does not say which bytes are a file of facts."""
WITHOUT_INPUT = [("GET", "/health"), ("GET", "/metrics"), ("GET", "/jobs"), ("POST", "/relearn")]
STREAMS = [("GET", "/events"), ("GET", "/jobs/{number}/events")]
MODES = schemathesis.GenerationMode

bounded = settings(
    max_examples=max(20, int(os.environ.get("LKGE_HTTP_FUZZ", "0"))),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def schema(learned: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """That of a service that accepts batches and never learns them."""
    folder = shutil.copytree(learned, tmp_path_factory.mktemp("schema") / "world")
    with threaded(folder, learner_command=IDLE_LEARNER) as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


@pytest.mark.parametrize(("method", "path"), [*WITH_INPUT, *WITHOUT_INPUT])
@bounded
@given(data=st.data())
def test_what_is_right_is_answered(schema: Any, method: str, path: str, data: Any) -> None:
    strategy = schema[path][method].as_strategy(generation_mode=MODES.POSITIVE)
    excluded = [positive_data_acceptance] if path in OF_FILES else []
    data.draw(strategy).call_and_validate(headers=BEARER, excluded_checks=excluded)


@pytest.mark.parametrize(("method", "path"), [*WITH_INPUT, *EITHER])
@bounded
@given(data=st.data())
def test_what_is_wrong_is_refused(schema: Any, method: str, path: str, data: Any) -> None:
    strategy = schema[path][method].as_strategy(generation_mode=MODES.NEGATIVE)
    data.draw(strategy).call_and_validate(headers=BEARER)


def test_every_operation_is_among_them(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert found == {*WITH_INPUT, *EITHER, *LINES, *WITHOUT_INPUT, *STREAMS}


def test_every_operation_explains_itself(client: TestClient) -> None:
    for methods in client.get("/openapi.json").json()["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["description"]
            assert "503" in operation["responses"]
