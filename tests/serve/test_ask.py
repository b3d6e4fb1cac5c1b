"""Relations, limits, suggestions, explanations, search and labels over HTTP."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import BEARER, IDLE_LEARNER, running_client

from lkge.living import open as open_graph
from lkge.serve import limits
from lkge.serve.errors import PROBLEM
from lkge.store.suggesting import most_queries


def asked(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    tree: dict[str, Any] = response.json()
    return tree


def test_relations_are_those_of_the_graph(client: TestClient, learned: Path) -> None:
    ends = {"subject": "City 03", "object": "Country 3"}
    graph = open_graph(learned)
    found = asked(client, "/predict/relations", ends)
    assert found["answers"] == [one._asdict() for one in graph.predict_relations(**ends)]
    assert (found["version"], found["calibrated"]) == (1, graph.reader.calibration.is_known)
    new = asked(client, "/predict/relations", {**ends, "new_only": True, "k": 5})["answers"]
    assert [one["relation"] for one in new] == ["near to"]


@pytest.mark.parametrize(
    "given",
    [
        {"among": ["Country 1", "City 09"]},
        {"where": [["capital of⁻¹", "City 01"]]},
        {"unlinked": True, "in_range": True},
    ],
)
def test_limited_answers_are_those_of_the_graph(
    client: TestClient, learned: Path, given: dict[str, Any]
) -> None:
    query = {"subject": "City 03", "relation": "lies in", "k": 50, **given}
    expected = [one._asdict() for one in open_graph(learned).predict(**query)]
    assert expected
    assert asked(client, "/predict", query)["answers"] == expected
    batch = asked(client, "/predict/batch", {"queries": [query]})
    assert batch["results"] == [expected]


@pytest.mark.parametrize("given", [{}, {"relation": "near to"}, {"object": "Country 2"}])
def test_suggestions_are_those_of_the_graph(
    client: TestClient, learned: Path, given: dict[str, Any]
) -> None:
    graph = open_graph(learned)
    most = most_queries(graph.reader.num_entities, limits.MAX_SUGGESTED_SCORES)
    expected = graph.suggest(**given, k=7, queries=most)
    found = asked(client, "/suggest", {**given, "k": 7})
    assert found["facts"] == [fact._asdict() for fact in expected.facts]
    assert (found["scored"], found["queries"], found["complete"]) == expected[1:]


def test_an_explanation_is_that_of_the_graph(client: TestClient, learned: Path) -> None:
    fact = ("City 07", "lies in", "Country 1")
    expected = open_graph(learned).explain(*fact, k=4)
    body = dict(zip(("subject", "relation", "object"), fact, strict=True))
    found = asked(client, "/explain", {**body, "k": 4})
    assert found["fact"] == expected.fact._asdict()
    assert found["reasons"] == [reason._asdict() for reason in expected.reasons]
    assert found["compared"] == expected.compared


def test_names_are_found_by_a_part(client: TestClient) -> None:
    def found(**given: Any) -> list[str]:
        response = client.get("/find", params=given)
        assert response.json()["version"] == 1
        return [one["name"] for one in response.json()["names"]]

    assert found(text="y 07") == ["City 07"]
    assert found(text="in", kind="relation") == ["lies in"]
    assert found(text="cty 07", limit=1) == ["City 07"]
    assert len(found()) == 10


def test_labels_are_set_and_shown_everywhere(learned: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(learned, tmp_path / "world")
    labels = {"City 03": "Third town", "lies in": "is part of", "nobody": "?"}
    with running_client(folder, learner_command=IDLE_LEARNER) as client:
        assert client.post("/labels", json={"labels": labels}).status_code == 401
        answer = client.post("/labels", json={"labels": labels}, headers=BEARER)
        assert answer.json() == {"labels": 3}
        query = {"subject": "City 03", "relation": "lies in"}
        known = {"City 03": "Third town", "lies in": "is part of"}
        town = {"City 03": "Third town"}
        assert asked(client, "/predict", query)["labels"] == known
        ends = {"subject": "City 03", "object": "Country 3"}
        assert asked(client, "/predict/relations", ends)["labels"] == known
        assert asked(client, "/score", {"facts": [["City 03", "lies in", "Country 1"]]})[
            "labels"
        ] == (known)
        assert asked(client, "/explain", {**query, "object": "Country 1"})["labels"] == known
        assert asked(client, "/suggest", query)["labels"] == known
        assert asked(client, "/similar", {"entity": "City 03"})["labels"] == town
        subjects = {"object": "Country 3", "relation": "near to", "k": 40}
        assert asked(client, "/predict/batch", {"queries": [subjects]})["labels"] == town
        around = client.get("/neighbourhood", params={"entity": "City 03"}).json()
        assert around["labels"] == known
        assert client.get("/map").json()["labels"] == town
        hits = client.get("/find", params={"text": "third"}).json()["names"]
        assert hits == [{"name": "City 03", "label": "Third town"}]
        client.post("/labels", json={"labels": {"City 03": ""}}, headers=BEARER)
        assert client.get("/map").json()["labels"] == {}
    assert open_graph(folder).labels == {"lies in": "is part of", "nobody": "?"}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/predict", {"subject": "City 03", "relation": "lies in", "among": []}, 422),
        ("/predict", {"subject": "City 03", "relation": "lies in", "among": ["nobody"]}, 404),
        ("/predict", {"subject": "City 03", "relation": "lies in", "where": [["a"]]}, 422),
        ("/predict/relations", {"subject": "City 03"}, 422),
        ("/predict/relations", {"subject": "City 03", "object": "Countri 3"}, 404),
        ("/suggest", {"subject": "City 03", "object": "City 03"}, 422),
        ("/suggest", {"relation": "lie in"}, 404),
        ("/explain", {"subject": "City 03", "relation": "lies in"}, 422),
        ("/explain", {"subject": "City 03", "relation": "lies in", "object": "x", "k": 101}, 422),
    ],
)
def test_what_is_wrong_is_a_problem(
    client: TestClient, path: str, body: dict[str, Any], status: int
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == status
    assert response.headers["content-type"] == PROBLEM
