"""Limits of answers: who may answer, with the score and plausibility of the whole list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.serve.helpers import world

from lkge.errors import DataError, UnknownName
from lkge.living import init
from lkge.store.graph import LivingGraph

QUERY: dict[str, Any] = {"subject": "City 03", "relation": "lies in", "k": 99}
CAPITALS = {f"City {city:02}" for city in range(6)}


def names(answers: Any) -> set[str]:
    return {answer.entity for answer in answers}


@pytest.mark.parametrize(
    "limits",
    [
        {"among": ["City 09", "Country 3", "Country 1", "City 09"]},
        {"where": [("near to", "City 09")]},
        {"where": [("lies in", "Country 1"), ("capital of", "Country 1")]},
        {"unlinked": True},
        {"new_only": True, "in_range": True, "among": ["Country 1", "Country 3", "City 01"]},
    ],
)
def test_limited_answers_are_a_part_of_the_whole_list(
    cities: LivingGraph, limits: dict[str, Any]
) -> None:
    found = cities.predict(**QUERY, **limits)
    assert found == [a for a in cities.predict(**QUERY) if a.entity in names(found)]


def test_who_is_left(cities: LivingGraph) -> None:
    every = names(cities.predict(**QUERY))
    assert names(cities.predict(**QUERY, among=["City 09", "Country 1"])) == {
        "City 09",
        "Country 1",
    }
    near = {s for s, r, o in world() if (r, o) == ("near to", "City 09")}
    assert names(cities.predict(**QUERY, where=[("near to", "City 09")])) == near - {"City 03"}
    capitals = {"relation": "lies in", "object": "Country 3", "k": 99}
    for_capitals = [("capital of", "Country 1"), ("lies in", "Country 1")]
    assert names(cities.predict(**capitals, where=for_capitals)) == {"City 01"}
    backwards = cities.predict(**QUERY, where=[("capital of⁻¹", "City 01")])
    assert names(backwards) == {"Country 1"}
    linked = {"Country 3", "City 09", "City 27", "City 03"}
    assert names(cities.predict(**QUERY, unlinked=True)) == (every | {"City 03"}) - linked


def test_an_entity_does_not_answer_itself_unless_that_is_known(
    cities: LivingGraph, tmp_path: Path
) -> None:
    assert "City 03" not in names(cities.predict(**QUERY))
    assert cities.predict(**QUERY, among=["City 03"]) == []
    graph = init(tmp_path / "KG", dim=4, max_epochs=1, backend="torch")
    graph.add([("a", "like", "a"), ("b", "like", "a"), ("b", "like", "c")], valid=0)
    assert names(graph.predict(subject="a", relation="like")) == {"a", "b", "c"}
    assert "b" not in names(graph.predict(subject="b", relation="like"))


def test_unknown_names_and_unknown_facts_are_errors(cities: LivingGraph, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Countri 1"):
        cities.predict(**QUERY, among=["Countri 1"])
    with pytest.raises(UnknownName, match="no relation"):
        cities.predict(**QUERY, where=[("lie in", "Country 1")])
    with pytest.raises(DataError, match="pairs of a relation and an object"):
        cities.predict(**QUERY, where=("lies in", "Country 1"))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="list of names"):
        cities.predict(**QUERY, among="City 03")
    graph = init(tmp_path / "KG", dim=4, max_epochs=1, backend="torch", known=False)
    graph.add([("a", "like", "b")], valid=0)
    for limits in ({"unlinked": True}, {"where": [("like", "b")]}):
        with pytest.raises(DataError, match="needs the known facts"):
            graph.predict(subject="a", relation="like", **limits)
