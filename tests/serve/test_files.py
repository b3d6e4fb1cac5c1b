"""Files of facts over HTTP: looked at, accepted, counted, refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.serve.helpers import BEARER, IDLE_LEARNER, running_client

from lkge.serve import limits
from lkge.store import inbox
from lkge.store.versions import Store

CSV = b"source,target,type\nRome,Country 1,lies in\nCity 00,Country 0,lies in\n"
CHOSEN = "subject=source,relation=type,object=target"
TURTLE = b'<x:a> <x:r> <x:b> ; <x:l> "text", 5 .'


def post(client: TestClient, path: str, content: bytes, **parameters: Any) -> Any:
    return client.post(path, content=content, params=parameters, headers=BEARER)


def test_a_file_is_looked_at_first(client: TestClient, learned: Path) -> None:
    before = Store(learned).batch_numbers()
    found = post(client, "/facts/preview", CSV, format="csv", columns=CHOSEN)
    assert found.status_code == 200
    body = found.json()
    assert (body["version"], body["facts"], body["new_facts"]) == (1, 2, 1)
    assert (body["new_entities"], body["new_relations"]) == (1, 0)
    assert body["sample"][0] == ["Rome", "lies in", "Country 1"]
    (file,) = body["files"]
    assert file["header"] == ["source", "target", "type"]
    assert file["columns"] == {"subject": "source", "relation": "type", "object": "target"}
    body = post(client, "/facts/preview", b"city 01\tlies in\tRome\n", format="tsv").json()
    reason = "differs from 'City 01' in case only"
    assert body["doubts"] == [{"kind": "entity", "name": "city 01", "reason": reason}]
    assert Store(learned).batch_numbers() == before


def test_a_file_is_accepted(kg: Path) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        accepted = post(client, "/facts/file", CSV, format="csv", columns=CHOSEN, valid=0.1)
        assert accepted.status_code == 202
        assert accepted.headers["location"] == "/jobs/2"
        job = accepted.json()
        assert (job["facts"], job["retracted"], job["warnings"]) == (2, 0, [])
        gone = post(client, "/facts/file", CSV, format="csv", columns=CHOSEN, retract=True).json()
        assert (gone["facts"], gone["retracted"]) == (0, 2)
    first, second = inbox.waiting(Store(kg))
    assert first.added == second.retracted
    assert first.added[0] == ("Rome", "lies in", "Country 1")
    assert first.valid == 0.1


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("ttl", TURTLE),
        ("trig", TURTLE),
        ("nt", b'<x:a> <x:r> <x:b> .\n<x:a> <x:l> "text" .\n<x:a> <x:l> "5" .'),
        ("nq", b'<x:a> <x:r> <x:b> <x:g> .\n<x:a> <x:l> "text" .\n<x:a> <x:l> "5" .'),
        ("jsonld", b'{"@id": "x:a", "x:r": {"@id": "x:b"}, "x:l": ["text", 5]}'),
        (
            "rdf",
            b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="x:">'
            b'<r:Description r:about="x:a"><x:r r:resource="x:b"/><x:l>text</x:l><x:l>5</x:l>'
            b"</r:Description></r:RDF>",
        ),
    ],
)
def test_literals_are_counted(kg: Path, format: str, content: bytes) -> None:
    with running_client(kg, learner_command=IDLE_LEARNER) as client:
        note = ["the file: left out 2 facts: 2 with literals"]
        looked = post(client, "/facts/preview", content, format=format).json()
        assert looked["files"][0]["warnings"] == note
        assert looked["sample"] == [["x:a", "x:r", "x:b"]]
        assert post(client, "/facts/file", content, format=format).json()["warnings"] == note


@pytest.mark.parametrize(
    ("content", "parameters", "status", "detail"),
    [
        (CSV, {"format": "csv"}, 422, f"--columns {CHOSEN}"),
        (CSV, {"format": "csv", "columns": "subject"}, 422, "name all three"),
        (CSV, {"format": "parquet"}, 422, "/query/format"),
        (CSV, {}, 422, "/query/format"),
        (gzip.compress(CSV), {"format": "csv"}, 422, "not valid UTF-8"),
        (b"a\tr\n", {"format": "tsv"}, 422, "the file:1: expected subject"),
        (b"a\tr\xe2\x81\xbb\xc2\xb9\tb\n", {"format": "tsv"}, 422, "marks inverse relations"),
        (b"a\tr\t" + b"b" * (limits.MAX_NAME + 1), {"format": "tsv"}, 422, "1,000 characters"),
        (
            b"".join(b"e%d\tr\tb\n" % n for n in range(limits.MAX_FACTS + 1)),
            {"format": "tsv"},
            413,
            "send it in parts",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/facts/preview", "/facts/file"])
def test_what_is_refused(
    client: TestClient,
    path: str,
    content: bytes,
    parameters: dict[str, str],
    status: int,
    detail: str,
) -> None:
    answer = post(client, path, content, **parameters)
    assert answer.status_code == status
    assert detail in answer.json()["detail"]


def test_an_empty_file_has_nothing_to_learn(client: TestClient) -> None:
    assert post(client, "/facts/preview", b"", format="tsv").json()["facts"] == 0
    answer = post(client, "/facts/file", b"", format="tsv")
    assert (answer.status_code, "no fact" in answer.json()["detail"]) == (422, True)


def test_a_file_takes_no_more_memory_than_a_request_may(client: TestClient) -> None:
    content = b"@prefix x: <x:%s> .\n" % (b"y" * 50_000) + b"x:a x:b x:c .\n" * 5_000
    answer = post(client, "/facts/preview", content, format="ttl")
    assert (answer.status_code, "needs more memory" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize("path", ["/facts/preview", "/facts/file"])
def test_the_token_for_writing_is_needed(client: TestClient, path: str) -> None:
    assert client.post(path, content=CSV, params={"format": "csv"}).status_code == 401
