"""Relations between two entities, by the score function itself."""

from __future__ import annotations

import pytest

from lkge.errors import UnknownName
from lkge.store.graph import LivingGraph

RELATIONS = ("capital of", "lies in", "near to")


@pytest.mark.parametrize(("subject", "object_"), [("City 03", "Country 3"), ("City 07", "City 09")])
def test_relations_are_those_of_the_score_best_first(
    cities: LivingGraph, subject: str, object_: str
) -> None:
    found = cities.predict_relations(subject=subject, object=object_)
    scored = cities.score([(subject, relation, object_) for relation in RELATIONS])
    expected = sorted(scored, key=lambda fact: -fact.score)
    assert [one[:2] for one in found] == [(fact.relation, fact.score) for fact in expected]
    for one, fact in zip(found, expected, strict=True):
        assert one.plausibility == pytest.approx(fact.plausibility)
        assert (one.known, one.in_range) == (fact.known, fact.in_range)
    assert cities.predict_relations(subject=subject, object=object_, k=1)[0][:2] == found[0][:2]


def test_known_ones_and_those_out_of_range_are_marked_or_left_out(cities: LivingGraph) -> None:
    ends = {"subject": "City 03", "object": "Country 3"}
    every = cities.predict_relations(**ends)
    assert {one.relation for one in every if one.known} == {"lies in", "capital of"}
    assert {one.relation for one in every if not one.in_range} == {"near to"}
    new = cities.predict_relations(**ends, new_only=True)
    assert [one.relation for one in new] == ["near to"]
    assert cities.predict_relations(**ends, in_range=True) == [a for a in every if a.in_range]
    assert cities.predict_relations(**ends, in_range=True, new_only=True) == []


def test_an_unknown_entity_is_an_error(cities: LivingGraph) -> None:
    with pytest.raises(UnknownName, match="City 03"):
        cities.predict_relations(subject="City 3", object="Country 3")
