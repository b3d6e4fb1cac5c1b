"""Draws are uniform over what has not joined, and joining is counted once."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.data.joining import NOTHING, State

FACTS = np.array([[7, 0, 9], [9, 0, 9], [9, 4, 8], [8, 4, 7]], dtype=np.int32)
ENTITY_7, ENTITY_8, ENTITY_9, RELATION_0, RELATION_4 = range(4, 9)


@pytest.fixture
def state() -> State:
    return State(FACTS, np.random.default_rng(0))


def test_items_are_facts_then_entities_then_relations(state: State) -> None:
    assert (state.first_entity, state.first_relation, state.num_items) == (4, 7, 9)
    assert state.parts[2].tolist() == [ENTITY_9, RELATION_4, ENTITY_8]
    assert state.total == {"fact": 4, "entity": 3, "relation": 2}


def test_holders_list_a_loop_once(state: State) -> None:
    assert sorted(state.holders(ENTITY_9).tolist()) == [0, 1, 2]
    assert sorted(state.holders(ENTITY_8).tolist()) == [2, 3]
    assert sorted(state.holders(RELATION_4).tolist()) == [2, 3]
    assert state.loops.tolist() == [False, True, False, False]


def test_a_fact_brings_its_unseen_parts_once(state: State) -> None:
    assert sorted(state.add(1)) == [ENTITY_9, RELATION_0]
    assert state.add(0) == [ENTITY_7]
    assert state.count == {"fact": 2, "entity": 2, "relation": 1}
    assert state.joined_facts.tolist() == [True, True, False, False]


def test_draws_are_uniform_over_what_has_not_joined(state: State) -> None:
    pool = state.pool(range(state.num_items))
    state.add(1)
    drawn = np.bincount([pool.pick() for _ in range(6000)], minlength=state.num_items)
    assert drawn[[1, ENTITY_9, RELATION_0]].tolist() == [0, 0, 0]
    others = np.delete(drawn, [1, ENTITY_9, RELATION_0])
    assert np.abs(others - 1000).max() < 150  # five standard deviations


def test_an_empty_pool_gives_nothing(state: State) -> None:
    pool = state.pool([0, 1])
    state.add(0)
    state.add(1)
    assert pool.pick() == NOTHING
    assert state.pool().pick() == NOTHING
