"""GET /predict, queries as lines, ETags, the page /docs, and services that only read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import HERE, IDLE_LEARNER, more, running_client, wait_until

from lkge import living
from lkge.serve.app import create_app
from lkge.serve.conditional import PATHS
from lkge.serve.errors import PROBLEM
from lkge.serve.limits import MAX_LINES

QUERY = {"subject": "City 03", "relation": "lies in", "k": 3}
LINES = {"Content-Type": "application/x-ndjson"}


class TestGet:
    @pytest.mark.parametrize(
        "query",
        [QUERY, {"object": "Country 1", "relation": "lies in", "new_only": True, "in_range": True}],
    )
    def test_it_answers_as_post_does(self, client: TestClient, query: dict[str, Any]) -> None:
        got = client.get("/predict", params=query)
        assert got.status_code == 200, got.text
        assert got.json() == client.post("/predict", json=query).json()

    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"object": "Country 1"}, "/query"),
            ({"subject": None}, "/query"),
            ({"k": "0"}, "/query/k"),
            ({"relation": None}, "/query/relation"),
        ],
    )
    def test_what_is_wrong_is_a_problem(
        self, client: TestClient, change: dict[str, Any], pointer: str
    ) -> None:
        given = {name: value for name, value in {**QUERY, **change}.items() if value is not None}
        response = client.get("/predict", params=given)
        assert (response.status_code, response.headers["content-type"]) == (422, PROBLEM)
        assert response.json()["errors"][0]["pointer"] == pointer

    def test_an_unknown_name_is_not_found(self, client: TestClient) -> None:
        response = client.get("/predict", params={**QUERY, "subject": "city 03"})
        assert response.status_code == 404
        assert "City 03" in response.json()["nearest"]
        assert "etag" not in response.headers


class TestLines:
    def asked(self, client: TestClient, *lines: object) -> Any:
        body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        return client.post("/predict/lines", content=body, headers=LINES)

    def test_each_line_is_answered_in_its_place(self, client: TestClient) -> None:
        other = {"object": "City 04", "relation": "near to", "k": 2}
        queries = [QUERY, other] * 20
        response = self.asked(client, *queries)
        assert response.headers["content-type"].startswith("application/x-ndjson")
        found = [json.loads(line) for line in response.text.splitlines()]
        assert found == [client.post("/predict", json=query).json() for query in queries]

    def test_an_unknown_name_is_a_problem_in_its_line(self, client: TestClient) -> None:
        response = self.asked(client, QUERY, "", {**QUERY, "subject": "city 03"}, QUERY)
        first, second, third = map(json.loads, response.text.splitlines())
        assert first == third
        assert (second["status"], second["nearest"][0]) == (404, "City 03")

    @pytest.mark.parametrize(
        ("line", "status", "said"),
        [
            ("{", 400, "line 2: "),
            ('{"relation": "lies in"}', 422, "line 2: give either a subject or an object"),
            ('{"relation": "lies in", "subject": "x", "k": 0}', 422, "line 2: /k: "),
        ],
    )
    def test_a_wrong_line_is_named(
        self, client: TestClient, line: str, status: int, said: str
    ) -> None:
        response = self.asked(client, QUERY, line)
        assert response.status_code == status
        assert response.json()["detail"].startswith(said)

    def test_the_lines_are_limited(self, client: TestClient) -> None:
        for lines in ([], ["{}"] * (MAX_LINES + 1)):
            response = self.asked(client, *lines)
            assert (response.status_code, response.headers["content-type"]) == (422, PROBLEM)


class TestETags:
    @pytest.mark.parametrize("path", sorted(PATHS))
    def test_nothing_new_is_said_in_a_word(self, client: TestClient, path: str) -> None:
        params = {**QUERY, "entity": "City 03"} if path in ("/predict", "/neighbourhood") else {}
        first = client.get(path, params=params)
        tag = first.headers["etag"]
        assert first.status_code == 200, first.text
        assert tag.startswith('W/"1-')
        for sent in (tag, tag.removeprefix("W/"), f'"other", {tag}'):
            again = client.get(path, params=params, headers={"If-None-Match": sent})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tag
        assert client.get(path, params=params, headers={"If-None-Match": '"x"'}).status_code == 200

    def test_what_depends_on_more_has_none(self, client: TestClient) -> None:
        for path in ("/health", "/versions", "/jobs", "/", "/nowhere"):
            assert "W/" not in client.get(path).headers.get("etag", "")
        assert "etag" not in client.post("/predict", json=QUERY).headers


class TestServicesThatOnlyRead:
    def test_they_serve_what_another_process_publishes(self, kg: Path) -> None:
        with (
            running_client(kg, learner_command=IDLE_LEARNER) as writer,
            TestClient(create_app(kg), base_url=HERE) as one,
            TestClient(create_app(kg, read_token="r"), base_url=HERE) as other,
        ):
            bearer = {"Authorization": "Bearer r"}
            before = one.get("/predict", params=QUERY).headers["etag"]
            assert one.post("/facts", json={"facts": [more(0)[0]]}).status_code == 403
            assert other.get("/health").status_code == 401
            living.open(kg).add(more(0), valid=0.0)
            for client in (writer, one, other):
                wait_until(lambda: client.get("/health", headers=bearer).json()["version"] == 2)  # noqa: B023
            after = one.get("/predict", params=QUERY, headers={"If-None-Match": before})
            assert (after.status_code, after.json()["version"]) == (200, 2)

    def test_they_learn_nothing(self, kg: Path) -> None:
        app: Any = create_app(kg)
        with TestClient(app, base_url=HERE):
            assert app.state.service._learner is None


def test_the_documentation_needs_no_other_host(client: TestClient) -> None:
    response = client.get("/docs")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    links = re.findall(r'(?:href|src)="([^"]*)"', response.text)
    assert links
    for link in links:
        assert link == "data:," or client.get(link).status_code == 200, link
    assert "<script" not in response.text
    assert "style=" not in response.text
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in response.text
