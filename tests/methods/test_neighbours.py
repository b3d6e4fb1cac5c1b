"""Neighbourhoods: drawn within a limit, renumbered, joined, stored."""

from __future__ import annotations

import numpy as np
import torch
from tests.backends.made import made_facts
from tests.methods.hand_made import as_facts

from lkge.data.snapshots import no_facts, with_inverses
from lkge.methods.neighbours import Neighbourhoods

EDGES = np.unique(with_inverses(made_facts(3, 60, 12, 3)), axis=0)


def sampled(limit: int, seed: int = 0, entities: int = 14) -> Neighbourhoods:
    return Neighbourhoods.sampled(EDGES, entities, limit, np.random.default_rng(seed))


def listed(near: Neighbourhoods) -> list[list[tuple[int, int]]]:
    """The neighbours of each entity."""
    return [
        list(zip(near.relations[a:b].tolist(), near.others[a:b].tolist(), strict=True))
        for a, b in zip(near.starts[:-1], near.starts[1:], strict=True)
    ]


def facts_around(entity: int) -> set[tuple[int, int]]:
    return {(r, o) for s, r, o in EDGES.tolist() if s == entity}


def test_an_entity_has_all_its_facts_where_the_limit_allows() -> None:
    for entity, neighbours in enumerate(listed(sampled(100))):
        assert len(neighbours) == len(facts_around(entity))
        assert set(neighbours) == facts_around(entity)


def test_beyond_the_limit_some_are_drawn_each_once() -> None:
    near = sampled(4)
    assert max(len(facts_around(entity)) for entity in range(12)) > 4
    for entity, neighbours in enumerate(listed(near)):
        assert len(neighbours) == min(4, len(facts_around(entity)))
        assert len(set(neighbours)) == len(neighbours)
        assert set(neighbours) <= facts_around(entity)
    assert near.counts.tolist() == [len(neighbours) for neighbours in listed(near)]
    assert near.counts[12:].tolist() == [0, 0]


def test_the_seed_decides_which() -> None:
    assert listed(sampled(4)) == listed(sampled(4))
    chosen = [{frozenset(n) for n in listed(sampled(4, seed))} for seed in range(2)]
    assert chosen[0] != chosen[1]


def test_each_fact_has_the_same_chance() -> None:
    edges = as_facts([(0, 0, other) for other in range(4)])
    counts = np.zeros(4)
    for seed in range(400):
        near = Neighbourhoods.sampled(edges, 1, 2, np.random.default_rng(seed))
        counts[near.others.numpy()] += 1
    assert counts.sum() == 800
    assert (np.abs(counts - 200) < 50).all()


def test_some_entities_are_renumbered() -> None:
    near = sampled(4)
    entities = torch.tensor([5, 13, 0, 5])
    assert listed(near.of(entities)) == [listed(near)[e] for e in entities.tolist()]


def test_pairs_are_distinct_and_lead_back() -> None:
    near = sampled(100)
    relations, others, places = near.pairs
    pairs = list(zip(relations.tolist(), others.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs) < len(near.others)
    assert torch.equal(relations[places], near.relations)
    assert torch.equal(others[places], near.others)


def test_joined_neighbourhoods_keep_their_order() -> None:
    first = Neighbourhoods.sampled(EDGES[EDGES[:, 0] % 2 == 0], 13, 4, np.random.default_rng(0))
    more = Neighbourhoods.sampled(EDGES[EDGES[:, 0] % 2 == 1], 15, 4, np.random.default_rng(1))
    joined = listed(first.joined(more))
    assert len(joined) == 15
    for entity in range(13):
        assert joined[entity] == listed(first if entity % 2 == 0 else more)[entity]


def test_nobody_has_neighbours_without_facts() -> None:
    for near in (
        Neighbourhoods.none(3),
        Neighbourhoods.sampled(no_facts(), 3, 4, np.random.default_rng(0)),
    ):
        assert listed(near) == [[], [], []]
        assert len(near) == 3
        assert len(near.pairs.relations) == len(near.subjects) == 0


def test_what_is_stored_comes_back() -> None:
    near = sampled(4)
    stored = near.named()
    assert {tensor.dtype for tensor in stored.values()} == {torch.int32}
    back = Neighbourhoods.from_named(stored)
    assert listed(back) == listed(near)
    assert back.starts.dtype == near.starts.dtype
