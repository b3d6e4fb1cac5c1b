"""What is in memory after each snapshot, and how EMR learns it."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.data.snapshots import Snapshot, no_facts
from lkge.methods.memory import Emr, Memory
from lkge.testing.graphs import config_for, growing_graph, trained


def snapshot(index: int, size: int) -> Snapshot:
    facts = np.array([[1000 * index + k, 0, k] for k in range(size)], np.int32).reshape(-1, 3)
    return Snapshot(index, facts, no_facts(), no_facts(), 10_000, 1)


def after(sizes: list[int], room: int) -> Memory:
    memory = Memory()
    for index, size in enumerate(sizes):
        generator = np.random.default_rng([7, index])
        memory = memory.refreshed(snapshot(index, size), room, generator)
    return memory


@pytest.mark.parametrize(
    ("sizes", "room", "counts"),
    [
        ([100], 20, [20]),
        ([100, 100], 20, [10, 10]),
        ([12], 20, [12]),
        ([12, 100], 20, [10, 10]),
        ([4, 100], 20, [4, 16]),
        ([100, 3], 20, [17, 3]),
        ([100, 0, 100], 20, [10, 0, 10]),
        ([100, 100], 0, [0, 0]),
        ([100, 100], 7, [4, 3]),
    ],
)
def test_each_snapshot_takes_half_of_the_room(
    sizes: list[int], room: int, counts: list[int]
) -> None:
    memory = after(sizes, room)
    assert [int((memory.since == index).sum()) for index in range(len(sizes))] == counts
    assert len(memory) == sum(counts) <= room
    assert (memory.facts[:, 0] // 1000 == memory.since).all()
    assert len({tuple(fact) for fact in memory.facts.tolist()}) == len(memory)


def test_later_snapshots_push_out_facts_of_all_earlier_ones_alike() -> None:
    memory = after([500] * 4, 200)
    counts = [int((memory.since == index).sum()) for index in range(4)]
    assert counts[3] == 100
    assert 10 < counts[0] < 45
    assert 10 < counts[1] < 45
    assert sum(counts) == 200


def test_the_generator_decides_what_is_kept() -> None:
    one, other = (
        Memory().refreshed(snapshot(0, 50), 10, np.random.default_rng(seed)) for seed in (1, 2)
    )
    assert one.facts.tolist() != other.facts.tolist()


def test_parts_are_the_facts_of_each_snapshot() -> None:
    memory = after([30, 30, 30], 12)
    assert np.concatenate(memory.parts()).tolist() == memory.facts.tolist()
    assert [set(part[:, 0] // 1000) for part in memory.parts()] == [{0}, {1}, {2}]
    assert Memory().parts() == []


def test_what_is_remembered_is_saved_and_loaded() -> None:
    kept, loaded = (Emr(config_for("emr")) for _ in range(2))
    for memory in (Memory(), after([30, 30], 12)):
        kept.memory = memory
        loaded.load_state(kept.state())
        assert loaded.memory.facts.tolist() == memory.facts.tolist()
        assert loaded.memory.since.tolist() == memory.since.tolist()


def test_emr_learns_old_facts_together_with_new_ones() -> None:
    graph = growing_graph()
    course = trained(graph, config_for("emr", memory_size=10))
    _, _, method = next(course)
    assert isinstance(method, Emr)
    remembered = method.memory.facts.tolist()
    learned = graph.snapshots[0].train.tolist()
    assert len(remembered) == 10
    assert all(fact in learned for fact in remembered)
    second = graph.snapshots[1]
    assert method.facts(second).tolist() == second.train.tolist() + remembered
    assert method.carried_bytes() == 10 * (3 + 1) * 4

    next(course)
    kept = [fact for fact in method.memory.facts.tolist() if fact in remembered]
    fresh = [fact for fact in method.memory.facts.tolist() if fact in second.train.tolist()]
    assert (len(kept), len(fresh)) == (5, 5)
