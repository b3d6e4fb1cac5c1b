"""DiCGRL: related facts are replayed, and components out of use stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.data.snapshots import with_inverses
from lkge.errors import SettingsError
from lkge.methods.dicgrl import Dicgrl, concerned
from lkge.methods.dicgrl import ATTENTION
from lkge.models.model import Model
from lkge.testing import paper_config
from lkge.testing.graphs import SETTINGS, growing_graph, lessons

GRAPH = growing_graph()
DICGRL = SETTINGS.with_changes({"method": "dicgrl", "memory_size": 20, "active_components": 2})


def test_components_that_no_fact_uses_are_untouched() -> None:
    """Bit for bit, in rows whose other components are learned. Corruptions use components too, so
    every entity may learn what any relation of the snapshot uses; and no more than that."""
    _, model, method = next(lessons(GRAPH, DICGRL))
    assert isinstance(method, Dicgrl)
    second = GRAPH.snapshots[1]
    before = model.tables.entity.clone()
    method.grow(model, second)
    method.begin(model, second)
    relations = np.unique(with_inverses(method.facts(second))[:, 1])
    start, _ = method.division.top(model.tables.extra[ATTENTION])
    study(model, method, GRAPH, 1)
    end, _ = method.division.top(model.tables.extra[ATTENTION])
    assert start[relations].equal(end[relations]), "another choice; the test shows nothing"
    used = np.unique(end[relations].numpy())
    idle = [k for k in range(8) if k not in used]
    after = model.tables.entity[: len(before)]
    assert idle, "all components are in use; the test shows nothing"
    assert after[:, idle].equal(before[:, idle])
    assert (after[:, used] != before[:, used]).any()


def test_remembered_facts_are_replayed_where_new_facts_share_entity_and_component() -> None:
    masks = np.array([0b0011, 0b0110, 0b1100, 0b1000], dtype=np.int64)
    new = np.array([[0, 0, 1]], dtype=np.int32)
    memory = np.array(
        [
            [0, 0, 5],  # shares entity 0 and both components
            [5, 0, 1],  # shares entity 1, which is in use through the inverse: component 1
            [0, 2, 5],  # shares entity 0, no component
            [5, 0, 6],  # shares no entity
            [5, 2, 1],  # shares entity 1 and component 2 of the inverse
        ],
        dtype=np.int32,
    )
    assert concerned(memory, new, masks, 7).tolist() == [True, True, False, False, True]


def test_what_is_replayed_comes_from_memory() -> None:
    course = lessons(GRAPH, DICGRL)
    _, model, method = next(course)
    assert isinstance(method, Dicgrl)
    second = GRAPH.snapshots[1]
    method.grow(model, second)
    method.begin(model, second)
    facts = method.facts(second)
    replayed = facts[len(second.train) :].tolist()
    assert facts[: len(second.train)].tolist() == second.train.tolist()
    remembered = method.memory.facts.tolist()
    assert 0 < len(replayed) < len(remembered)
    assert all(fact in remembered for fact in replayed)


def test_attention_is_drawn_for_new_relations_and_learned() -> None:
    course = lessons(GRAPH, DICGRL)
    _, model, _ = next(course)
    drawn = Model(DICGRL)
    Dicgrl(DICGRL).grow(drawn, GRAPH.snapshots[0])
    assert model.tables.extra[ATTENTION].shape == (4, 8)
    assert not model.tables.extra[ATTENTION].equal(drawn.tables.extra[ATTENTION])
    _, model, _ = next(course)
    assert model.tables.extra[ATTENTION].shape == (6, 8)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dim": 10}, "dim = 10 into components = 8: choose a dim that is a multiple of 8"),
        ({"score": "complex"}, "dim = 200 into components = 8: .* a multiple of 16, or others"),
        ({"active_components": 9}, "active_components = 9 is out of range"),
    ],
)
def test_impossible_divisions_are_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Dicgrl(paper_config().with_changes(changes))
