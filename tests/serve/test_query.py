from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import world

from lkge.data.changed_names import ChangedNames
from lkge.serve.errors import PROBLEM
from lkge.serve.limits import MAX_ANSWERS, MAX_QUERIES
from lkge.store.reader import open_reader


def answered(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    tree: dict[str, Any] = response.json()
    assert tree.pop("version") == 1
    tree.pop("calibrated", None)
    return tree


def test_predict_answers_as_the_reader_does(client: TestClient, learned: Path) -> None:
    question = {"subject": "City 03", "relation": "lies in"}
    found = answered(client, "/predict", {**question, "k": 5})["answers"]
    assert found == [one._asdict() for one in open_reader(learned).predict(**question, k=5)]
    assert len(found) == 5


def test_predict_asks_for_subjects_and_leaves_out_what_is_known(client: TestClient) -> None:
    body = {"object": "Country 1", "relation": "lies in", "k": 100}
    every = answered(client, "/predict", body)["answers"]
    new = answered(client, "/predict", {**body, "new_only": True})["answers"]
    known = {one["entity"] for one in every if one["known"]}
    cities = {subject for subject, relation, object_ in world() if object_ == "Country 1"}
    assert known == cities
    assert [one for one in every if not one["known"]] == new


def test_a_batch_answers_each_question_in_turn(client: TestClient) -> None:
    questions = [
        {"subject": "City 03", "relation": "lies in", "k": 3},
        {"object": "City 04", "relation": "near to", "k": 2},
    ]
    results = answered(client, "/predict/batch", {"queries": questions})["results"]
    assert results == [answered(client, "/predict", one)["answers"] for one in questions]


def test_similar_leaves_the_entity_itself_out(client: TestClient) -> None:
    found = answered(client, "/similar", {"entity": "City 03", "k": 4})["entities"]
    assert len(found) == 4
    assert "City 03" not in {one["entity"] for one in found}
    assert [one["similarity"] for one in found] == sorted(
        (one["similarity"] for one in found), reverse=True
    )


def test_score_knows_what_is_known(client: TestClient, learned: Path) -> None:
    facts = [["City 03", "lies in", "Country 3"], ["City 03", "lies in", "City 03"]]
    first, second = answered(client, "/score", {"facts": facts})["facts"]
    assert [first["subject"], first["relation"], first["object"]] == facts[0]
    assert (first["known"], second["known"]) == (True, False)
    assert (first["in_range"], second["in_range"]) == (True, False)
    scored = open_reader(learned).score([tuple(fact) for fact in facts])
    assert [first, second] == [one._asdict() for one in scored]


def test_answers_out_of_range_are_marked_or_left_out(client: TestClient) -> None:
    body = {"subject": "City 03", "relation": "lies in", "k": 100}
    every = answered(client, "/predict", body)["answers"]
    inside = answered(client, "/predict", {**body, "in_range": True})["answers"]
    countries = {object_ for _, relation, object_ in world() if relation == "lies in"}
    assert {one["entity"] for one in every if one["in_range"]} == countries
    assert inside == [one for one in every if one["in_range"]]
    assert len(inside) < len(every)


def test_a_response_says_whether_plausibility_is_calibrated(
    client: TestClient, learned: Path
) -> None:
    expected = open_reader(learned).calibration.is_known
    query = {"subject": "City 03", "relation": "lies in"}
    for path, body in (
        ("/predict", query),
        ("/predict/batch", {"queries": [query]}),
        ("/score", {"facts": [["City 03", "lies in", "Country 3"]]}),
    ):
        assert client.post(path, json=body).json()["calibrated"] is expected


@pytest.mark.parametrize(
    ("path", "body", "nearest"),
    [
        ("/predict", {"subject": "City O3", "relation": "lies in"}, "City 03"),
        ("/predict", {"subject": "City 03", "relation": "lie in"}, "lies in"),
        ("/similar", {"entity": "Country 11"}, "Country 1"),
        ("/score", {"facts": [["City 03", "lies in", "Countri 1"]]}, "Country 1"),
    ],
)
def test_an_unknown_name_is_not_found_and_gets_the_nearest_spellings(
    client: TestClient, path: str, body: dict[str, Any], nearest: str
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 404
    assert response.headers["content-type"] == PROBLEM
    problem = response.json()
    assert nearest in problem["nearest"]
    assert nearest in problem["detail"]
    assert (problem["status"], problem["title"]) == (404, "Not Found")


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/predict", {"relation": "lies in"}, "/body"),
        ("/predict", {"subject": "a", "object": "b", "relation": "lies in"}, "/body"),
        ("/predict", {"subject": None, "relation": "lies in"}, "/body"),
        ("/predict", {"subject": "a", "relation": ""}, "/body/relation"),
        ("/predict", {"subject": "a", "relation": "b", "k": 0}, "/body/k"),
        ("/predict", {"subject": "a", "relation": "b", "k": MAX_ANSWERS + 1}, "/body/k"),
        ("/predict", {"subject": "a", "relation": "b", "wrong": 1}, "/body/wrong"),
        ("/predict", {"subject": "a" * 1001, "relation": "b"}, "/body/subject"),
        ("/predict/batch", {"queries": []}, "/body/queries"),
        (
            "/predict/batch",
            {"queries": [{"subject": "a", "relation": "b"}] * (MAX_QUERIES + 1)},
            "/body/queries",
        ),
        ("/score", {"facts": [["a", "b"]]}, "/body/facts/0/2"),
    ],
)
def test_what_is_wrong_is_pointed_at(
    client: TestClient, path: str, body: dict[str, Any], pointer: str
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 422
    assert response.headers["content-type"] == PROBLEM
    assert pointer in {fault["pointer"] for fault in response.json()["errors"]}


def test_a_body_that_is_no_json_is_a_bad_request(client: TestClient) -> None:
    response = client.post("/predict", content="{", headers={"Content-Type": "application/json"})
    assert response.status_code == 400
    assert response.headers["content-type"] == PROBLEM


def test_a_lone_surrogate_is_refused(client: TestClient) -> None:
    body = rb'{"subject": "\ud800", "relation": "lies in"}'
    response = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/x", 404), ("GET", "/score", 405)])
def test_wrong_paths_and_methods_are_problems(
    client: TestClient, method: str, path: str, status: int
) -> None:
    response = client.request(method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == PROBLEM
    assert (response.headers.get("allow") == "POST") == (status == 405)


def test_similar_names_are_searched_for_once_in_a_request(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []
    plain = ChangedNames.near
    monkeypatch.setattr(
        ChangedNames, "near", lambda table, name: (searched.append(name), plain(table, name))[1]
    )
    queries = [{"subject": f"Citty {n}", "relation": "lies in"} for n in range(50)]
    assert client.post("/predict/batch", json={"queries": queries}).status_code == 404
    facts = [[f"Citty {n}", "lies in", "Country 1"] for n in range(50)]
    assert client.post("/score", json={"facts": facts}).status_code == 404
    assert len(searched) == 2
