from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lkge.data.vocabulary import INVERSE, Vocabulary
from lkge.errors import DataError, UnknownName

names = st.lists(st.text(min_size=1).filter(str.strip))


@given(names)
def test_ids_follow_first_appearance(added: list[str]) -> None:
    vocabulary = Vocabulary()
    ids = [vocabulary.add_entity(name) for name in added]
    assert list(vocabulary.entities) == list(dict.fromkeys(added))
    assert ids == [vocabulary.entities.index(name) for name in added]
    assert ids == list(map(vocabulary.entity_id, added))


@given(names.map(lambda given: [name for name in given if not name.endswith(INVERSE)]))
def test_relations_come_in_pairs(added: list[str]) -> None:
    vocabulary = Vocabulary(relations=added)
    for place, name in enumerate(vocabulary.relations):
        forward = vocabulary.relation_id(name)
        assert forward == 2 * place
        assert vocabulary.relation_id(name + INVERSE) == forward ^ 1
        assert vocabulary.relation_name(forward) == name
        assert vocabulary.relation_name(forward ^ 1) == name + INVERSE


def test_adding_again_changes_nothing() -> None:
    vocabulary = Vocabulary(["a", "b"], ["r"])
    assert vocabulary.add_entity("b") == 1
    assert vocabulary.add_relation("r") == 0
    assert vocabulary == Vocabulary(["a", "b"], ["r"])
    assert (vocabulary.num_entities, vocabulary.num_relations) == (2, 1)


def test_growth_keeps_old_ids() -> None:
    vocabulary = Vocabulary(["a"], ["r"])
    assert [vocabulary.add_entity(name) for name in "cabc"] == [1, 0, 2, 1]
    assert [vocabulary.add_relation(name) for name in "qr"] == [2, 0]
    assert list(map(vocabulary.entity_id, "acb")) == [0, 1, 2]
    assert list(map(vocabulary.relation_id, "rq")) == [0, 2]


def test_unknown_names_bring_the_nearest() -> None:
    vocabulary = Vocabulary(["Hot_Water_Pump", "Chiller"], ["hasTag"])
    with pytest.raises(UnknownName, match="'Hot_Water_Pump'"):
        vocabulary.entity_id("hot_water_pumps")
    with pytest.raises(UnknownName, match="'hasTag'"):
        vocabulary.relation_id("hasTags" + INVERSE)


def test_a_forward_name_cannot_look_like_an_inverse() -> None:
    with pytest.raises(DataError, match="rename"):
        Vocabulary().add_relation("r" + INVERSE)


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_empty_names_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="empty"):
        Vocabulary().add_entity(name)
    with pytest.raises(DataError, match="empty"):
        Vocabulary().add_relation(name)


@pytest.mark.parametrize("number", [-1, 2])
def test_ids_out_of_range_are_refused(number: int) -> None:
    vocabulary = Vocabulary(["a", "b"], ["r"])
    with pytest.raises(DataError, match="no entity with id"):
        vocabulary.entity_name(number)
    with pytest.raises(DataError, match="no relation with id"):
        vocabulary.relation_name(number)


def test_json_gives_it_back() -> None:
    vocabulary = Vocabulary(["ä", "b"], ["r", "q"])
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"entities": ["a"]},
        {"entities": "ab", "relations": []},
        {"entities": [1], "relations": []},
        {"entities": ["a", "a"], "relations": []},
        {"entities": [], "relations": ["r", "r"]},
    ],
)
def test_damaged_json_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(DataError, match="stored vocabulary"):
        Vocabulary.from_json(stored)


def test_a_wrong_spelling_among_many_names_answers_soon() -> None:
    vocabulary = Vocabulary(f"entity_{number}" for number in range(200_000))
    started = time.perf_counter()
    with pytest.raises(UnknownName, match="'entity_12345'"):
        vocabulary.entity_id("entiti_12345")
    assert time.perf_counter() - started < 5
