from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import IDLE_LEARNER, running_client, set_reliability

from lkge import living


def test_entities_are_completed_in_any_case(client: TestClient) -> None:
    found = client.get("/entities", params={"prefix": "city 0", "limit": 4}).json()
    assert found == {"version": 1, "names": ["City 00", "City 01", "City 02", "City 03"]}
    assert client.get("/entities", params={"prefix": "nobody"}).json()["names"] == []


def test_relations(client: TestClient) -> None:
    assert client.get("/relations").json()["names"] == ["capital of", "lies in", "near to"]
    assert client.get("/relations", params={"prefix": "L"}).json()["names"] == ["lies in"]


def test_a_neighbourhood_has_both_directions(client: TestClient) -> None:
    found = client.get("/neighbourhood", params={"entity": "City 03"}).json()
    facts = {(one["relation"], one["entity"]) for one in found["neighbours"]}
    assert facts == {
        ("lies in", "Country 3"),
        ("capital of", "Country 3"),
        ("near to", "City 09"),
        ("near to⁻¹", "City 27"),
    }
    assert (found["degree"], found["since"]) == (4, 1)
    assert {one["since"] for one in found["neighbours"]} == {1}


def test_a_large_neighbourhood_is_cut_at_the_limit(client: TestClient) -> None:
    found = client.get("/neighbourhood", params={"entity": "Country 1", "limit": 2}).json()
    assert len(found["neighbours"]) == 2
    assert found["degree"] == 6


def test_an_entity_that_is_not_there_has_no_neighbourhood(client: TestClient) -> None:
    response = client.get("/neighbourhood", params={"entity": "Citi 03"})
    assert response.status_code == 404
    assert "City 03" in response.json()["nearest"]


def test_the_map_has_a_place_for_each_entity(client: TestClient) -> None:
    drawn = client.get("/map").json()
    columns = [drawn[name] for name in ("entities", "x", "y", "degree", "since")]
    assert [len(column) for column in columns] == [36] * 5
    assert max(map(abs, drawn["x"] + drawn["y"])) == 1
    assert dict(zip(drawn["entities"], drawn["degree"], strict=True))["City 03"] == 4
    assert len(client.get("/map", params={"limit": 7}).json()["entities"]) == 7
    assert client.get("/map").json() == drawn


def test_versions_are_the_history(client: TestClient) -> None:
    history = client.get("/versions").json()
    assert history["current"] == 1
    assert [one["kind"] for one in history["versions"]] == ["init", "add"]
    last = history["versions"][-1]
    assert (last["known_facts"], last["entities"], last["relations"]) == (66, 36, 3)
    assert last["by_age"].keys() <= {"0", "1-2"}
    assert history["versions"][0]["mrr_new"] is None
    assert len(client.get("/versions", params={"limit": 1}).json()["versions"]) == 1


def test_health(client: TestClient) -> None:
    health = client.get("/health").json()
    assert (health["status"], health["version"], health["graph"]) == ("ok", 1, "world")
    assert (health["entities"], health["facts"], health["dim"]) == (36, 66, 8)
    assert health["jobs"] == []
    assert health["quality"]["reliability"] is None  # too few facts are held out


def test_metrics_count_what_was_asked(client: TestClient) -> None:
    client.get("/health")
    for number in range(3):
        client.request(f"METHOD{number}", f"/no/such/path/{number}")
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'lkge_http_requests_total{method="GET",route="/health",status="200"}' in response.text
    assert 'lkge_http_requests_total{method="other",route="other",status="404"}' in response.text
    assert "METHOD" not in response.text
    assert "\nlkge_facts 66.0\n" in response.text


@pytest.mark.parametrize("path", ["/entities", "/relations", "/map", "/versions"])
def test_limits_are_kept(client: TestClient, path: str) -> None:
    for limit in ("0", "1000000", "many"):
        assert client.get(path, params={"limit": limit}).status_code == 422


def test_an_empty_graph_is_served(tmp_path: Path) -> None:
    living.init(tmp_path / "empty", dim=8)
    with running_client(tmp_path / "empty", learner_command=IDLE_LEARNER) as client:
        assert client.get("/health").json()["entities"] == 0
        assert client.get("/map").json()["entities"] == []
        assert client.get("/entities").json()["names"] == []
        body = {"subject": "a", "relation": "b"}
        assert client.post("/predict", json=body).status_code == 404


def test_the_page_and_its_parts_come_from_here_and_nothing_runs_inline(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text
    assert "https://" not in page.text
    for name in ("main.js", "base.css"):
        assert client.get(f"/static/{name}").status_code == 200
    for path in ("/redoc", "/static/../app.py", "/static/%2e%2e/app.py"):
        assert client.get(path).status_code == 404


def test_health_has_the_reliability_of_the_version(kg: Path) -> None:
    set_reliability(kg)
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        found = client.get("/health").json()["quality"]["reliability"]
    assert (found["queries"], found["answers"]) == (5, 5)
    assert found["error"] == pytest.approx((3 * (1 / 3 - 0.1) + 2 * 0.5) / 5)
    assert found["bins"][1] == pytest.approx({"answers": 2, "plausibility": 0.5, "true": 1.0})
