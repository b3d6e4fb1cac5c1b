"""Suggested facts against a search of every query."""

from __future__ import annotations

import dataclasses
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.helpers import world

from lkge.data.known_facts import pack
from lkge.errors import DataError, SettingsError
from lkge.living import init
from lkge.store import suggesting
from lkge.store.calibration import Calibration
from lkge.store.graph import LivingGraph
from lkge.store.suggesting import relations_expected, suggest

WEIGHTS = Calibration(facts=50, temperature=2.0, weights=(4.0, 1.0, -0.5))
CLOSE: dict[str, Any] = {"rel": 0.02, "abs": 1e-3}
"""How far the plausibility of a search by bytes is from that of a full scan."""


@pytest.fixture(scope="module")
def graph(cities: LivingGraph) -> LivingGraph:
    """The cities with a calibration that tells answers apart."""
    graph = LivingGraph(cities.store.folder)
    judge = dataclasses.replace(graph.reader.judge, calibration=WEIGHTS, counts={})
    graph.reader.judge = judge
    return graph


def searched(graph: LivingGraph, relation: str) -> dict[tuple[str, str], float]:
    """Plausibility of each new fact in range, of all subjects that have the relation."""
    subjects = {s for s, r, _ in world() if r == relation}
    return {
        (subject, answer.entity): answer.plausibility
        for subject in subjects
        for answer in graph.predict(
            subject=subject, relation=relation, k=99, new_only=True, in_range=True
        )
    }


def test_the_best_facts_of_a_relation_are_those_of_a_search_of_all(graph: LivingGraph) -> None:
    every = searched(graph, "near to")
    found = graph.suggest(relation="near to", k=25)
    assert found.complete
    assert (found.queries, len(found.facts)) == (30, 25)
    values = [fact.plausibility for fact in found.facts]
    assert values == pytest.approx(sorted(every.values(), reverse=True)[:25], **CLOSE)
    for fact in found.facts:
        assert fact.plausibility == pytest.approx(every[fact.subject, fact.object], **CLOSE)
    scored = graph.score([fact[:3] for fact in found.facts])
    assert [fact.score for fact in scored] == pytest.approx([f.score for f in found.facts])
    assert not any(fact.known for fact in scored)


def test_queries_that_cannot_be_better_are_not_scored(
    graph: LivingGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is low where many subjects have one answer each, as all cities have one country."""
    every = graph.suggest(k=500)
    monkeypatch.setattr(suggesting, "QUERIES_AT_ONCE", 1)
    few = graph.suggest(k=2)
    assert few.complete
    assert every.complete
    assert few.scored < few.queries == every.queries == every.scored == 66
    assert [fact[:3] for fact in few.facts] == [fact[:3] for fact in every.facts[:2]]


def test_a_limit_of_queries_is_told(graph: LivingGraph) -> None:
    found = graph.suggest(relation="near to", k=500, queries=3)
    assert (found.scored, found.complete) == (3, False)
    assert len({fact.subject for fact in found.facts}) == 3
    assert found == graph.suggest(relation="near to", k=500, queries=3)


def test_facts_of_one_entity(graph: LivingGraph) -> None:
    as_subject = graph.suggest(subject="City 20", k=200)
    assert {fact.subject for fact in as_subject.facts} == {"City 20"}
    assert {fact.relation for fact in as_subject.facts} == {"lies in", "near to"}
    as_object = graph.suggest(object="City 20", relation="near to", k=200)
    assert {fact[1:3] for fact in as_object.facts} == {("near to", "City 20")}
    listed = graph.predict(relation="near to", object="City 20", k=99, new_only=True, in_range=True)
    assert [fact.subject for fact in as_object.facts] == [answer.entity for answer in listed]
    assert [fact.plausibility for fact in as_object.facts] == pytest.approx(
        [answer.plausibility for answer in listed], **CLOSE
    )
    assert graph.suggest(subject="Country 1", k=9).facts == []


def test_a_relation_that_most_of_its_kind_have_is_expected(tmp_path: Path) -> None:
    people = [(f"person {n}", "works at", f"firm {n % 3}") for n in range(20)]
    homes = [(f"person {n}", "lives in", f"town {n % 4}") for n in range(19)]
    towns = [(f"town {n}", "lies in", "land") for n in range(4)]
    graph = init(tmp_path / "KG", dim=8, max_epochs=2, backend="torch")
    graph.add([*people, *homes, *towns], valid=0)
    found = graph.suggest(subject="person 19", relation="lives in", k=9)
    assert {fact.object for fact in found.facts} == {f"town {n}" for n in range(4)}
    assert graph.suggest(subject="town 1", relation="lives in", k=9).facts == []
    assert found.queries == 1
    assert graph.suggest(relation="lives in").queries == 20


def test_relations_that_go_together() -> None:
    both = [pack(subject, relation) for subject, relation in product(range(6), (0, 2))]
    more = [pack(subject, 2) for subject in range(6, 12)]
    rare = [pack(subject, 4) for subject in range(4)]
    pairs = relations_expected(np.sort(np.array([*both, *more, *rare], dtype=np.int64)))
    assert {(int(first), int(second)) for first, second in pairs} == {(0, 2), (2, 0), (0, 4)}


def test_what_cannot_be_asked(graph: LivingGraph, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not both"):
        graph.suggest(subject="City 01", object="City 02")
    made: dict[str, Any] = {"dim": 4, "max_epochs": 1, "backend": "torch"}
    unknown = init(tmp_path / "unknown", known=False, **made)
    with pytest.raises(DataError, match="need the known facts"):
        suggest(unknown.reader)
    empty = init(tmp_path / "empty", **made)
    assert empty.suggest() == ([], 0, 0, True)
