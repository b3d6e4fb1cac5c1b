"""The builder keeps what the paper says of each growth, on any graph."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lkge.data.growth import (
    GROWTHS,
    NOTHING,
    SEEDS,
    Division,
    Growth,
    GrowthState,
    Step,
    build_growing_graph,
    divide,
    expand,
    grow,
    unique_facts,
)
from lkge.data.snapshots import Facts
from lkge.errors import DataError, SettingsError

FB15K = Path(__file__).parents[2] / ".." / "shared" / "data" / "FB15k-237-all.tsv.xz"


def as_facts(rows: list[tuple[int, int, int]]) -> Facts:
    return np.array(rows, dtype=np.int32).reshape(-1, 3)


CHAIN = [(k, 2 * k, k + 1) for k in range(12)]
"""Enough facts, entities and relations for five snapshots of any growth."""


@st.composite
def graphs(draw: st.DrawFn) -> Facts:
    """A chain and random facts, often with repetitions, loops and several components."""
    entity = st.integers(0, draw(st.integers(0, 40)))
    relation = st.integers(0, draw(st.integers(0, 15))).map(lambda k: 2 * k)
    rows = draw(st.lists(st.tuples(entity, relation, entity), max_size=100))
    loners = [(100 + 2 * k, 2 * k, 101 + 2 * k) for k in range(draw(st.integers(0, 12)))]
    return as_facts(CHAIN + rows + loners)


cases = given(
    facts=graphs(),
    growth=st.sampled_from(GROWTHS),
    snapshots=st.integers(1, 5),
    seed=st.integers(0, 1000),
)
walks = given(
    facts=graphs(),
    growth=st.sampled_from(GROWTHS[:3]),
    snapshots=st.integers(1, 5),
    seed=st.integers(0, 1000),
)


def steps_of(facts: Facts, growth: Growth, snapshots: int, seed: int) -> tuple[Facts, list[Step]]:
    facts = unique_facts(facts)
    return facts, expand(facts, growth, snapshots, np.random.default_rng(seed))


def as_set(facts: Facts) -> set[tuple[int, ...]]:
    return set(map(tuple, facts.tolist()))


def all_of(division: Division) -> Facts:
    return np.concatenate([division.train, division.valid, division.test])


@cases
def test_snapshots_share_out_the_source(
    facts: Facts, growth: Growth, snapshots: int, seed: int
) -> None:
    divisions = grow(facts, growth, snapshots, seed=seed)
    new = [all_of(division) for division in divisions]
    assert len(new) == snapshots
    assert all(len(part) > 0 for part in new)
    everything = np.concatenate(new)
    assert len(everything) == len(as_set(everything)) == len(as_set(facts))
    assert as_set(everything) == as_set(facts)
    assert everything.dtype == np.int32


@cases
def test_division_is_three_to_one_to_one(
    facts: Facts, growth: Growth, snapshots: int, seed: int
) -> None:
    for division in grow(facts, growth, snapshots, seed=seed):
        size = len(all_of(division))
        assert len(division.valid) == len(division.test) == size // 5
        assert len(division.train) == size - 2 * (size // 5)


@walks
def test_every_drawn_fact_but_the_seeds_touches_a_seen_entity(
    facts: Facts, growth: Growth, snapshots: int, seed: int
) -> None:
    facts, steps = steps_of(facts, growth, snapshots, seed)
    left = set(range(len(facts)))
    seen: set[int] = set()
    for number, step in enumerate(steps):
        for place, row in enumerate(step.drawn.tolist()):
            subject, _, object_ = facts[row].tolist()
            touches = {int(r) for r in left if seen & {int(facts[r, 0]), int(facts[r, 2])}}
            if row not in step.seeds:
                assert row in touches
            elif number > 0 or place >= SEEDS:
                assert not touches, "a new seed only where nothing touches a seen entity"
            seen |= {subject, object_}
            left.remove(row)
        seen |= set(facts[step.closing][:, [0, 2]].ravel().tolist())
        left -= set(step.closing.tolist())
    assert not left


@walks
def test_thresholds_and_closings(facts: Facts, growth: Growth, snapshots: int, seed: int) -> None:
    facts, steps = steps_of(facts, growth, snapshots, seed)
    num_entities = len(np.unique(facts[:, [0, 2]]))
    num_relations = len(np.unique(facts[:, 1]))
    for i in range(1, len(steps)):
        known = np.concatenate([step.rows for step in steps[:i]])
        left = np.setdiff1d(np.arange(len(facts)), known)
        entities = np.unique(facts[known][:, [0, 2]])
        relations = np.unique(facts[known][:, 1])
        if growth == "entity":
            least = -(-i * num_entities // snapshots)
            assert least <= len(entities) <= least + 1
            assert not np.isin(facts[left][:, [0, 2]], entities).all(axis=1).any()
        elif growth == "relation":
            assert len(relations) == -(-i * num_relations // snapshots)
            assert not np.isin(facts[left, 1], relations).any()
        else:
            assert len(known) == -(-i * len(facts) // snapshots)
            assert all(len(step.closing) == 0 for step in steps[:-1])


@given(facts=graphs(), snapshots=st.integers(2, 5), seed=st.integers(0, 1000))
def test_hybrid_seeds_are_few_and_snapshots_have_no_closing(
    facts: Facts, snapshots: int, seed: int
) -> None:
    facts, steps = steps_of(facts, "hybrid", snapshots, seed)
    assert len(steps[0].seeds) == min(SEEDS, len(facts) // snapshots)
    assert steps[0].seeds == set(steps[0].drawn[: len(steps[0].seeds)].tolist())
    for step in steps[1:]:
        assert not step.seeds
    for step in steps[:-1]:
        assert len(step.closing) == 0


def test_hybrid_snapshots_are_uneven() -> None:
    """The number of draws is random: of one graph, first snapshots have many sizes."""
    facts = random_facts(400)
    sizes = [
        len(expand(facts, "hybrid", 5, np.random.default_rng(seed))[0].rows) for seed in range(40)
    ]
    assert min(sizes) >= SEEDS
    assert len(set(sizes)) > 20


def random_facts(count: int = 2000) -> Facts:
    rng = np.random.default_rng(7)
    columns = [
        rng.integers(0, 300, count),
        2 * rng.integers(0, 20, count),
        rng.integers(0, 300, count),
    ]
    return np.stack(columns, axis=1).astype(np.int32)


@pytest.mark.parametrize("growth", GROWTHS)
def test_same_seed_same_snapshots_and_other_seed_other_snapshots(growth: Growth) -> None:
    facts = random_facts()
    first, again, other = (grow(facts, growth, seed=seed) for seed in (3, 3, 4))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.train, b.train)
        np.testing.assert_array_equal(a.valid, b.valid)
        np.testing.assert_array_equal(a.test, b.test)
    assert as_set(all_of(first[0])) != as_set(all_of(other[0]))


@pytest.mark.parametrize("growth", GROWTHS)
def test_relation_labels_need_not_be_even(growth: Growth) -> None:
    facts = random_facts()
    plain = facts // [1, 2, 1]
    for even, consecutive in zip(
        grow(facts, growth, seed=1), grow(plain.astype(np.int32), growth, seed=1), strict=True
    ):
        np.testing.assert_array_equal(even.train // [1, 2, 1], consecutive.train)


def test_division_keeps_every_fact_and_shuffles() -> None:
    facts = random_facts(1003)
    division = divide(facts, np.random.default_rng(0))
    assert [len(division.train), len(division.valid), len(division.test)] == [603, 200, 200]
    np.testing.assert_array_equal(
        np.sort(all_of(division).view("i4,i4,i4"), axis=0), np.sort(facts.view("i4,i4,i4"), axis=0)
    )
    assert not np.array_equal(all_of(division), facts)


@pytest.mark.parametrize(
    ("growth", "lacking"), [("fact", "fact"), ("entity", "entity"), ("relation", "relation")]
)
def test_too_small_a_source_is_refused_with_a_remedy(growth: Growth, lacking: str) -> None:
    rows = {
        "fact": [(k, k, k + 1) for k in range(4)],
        "entity": [(s, r, o) for s in range(3) for r in range(6) for o in range(3)],
        "relation": [(k, k % 4, k + 1) for k in range(50)],
    }[growth]
    with pytest.raises(DataError, match=rf"{lacking} count .*needed.*fewer snapshots"):
        grow(as_facts(rows), growth, 5, seed=0)


def test_no_facts_at_all_and_wrong_settings_are_refused() -> None:
    with pytest.raises(DataError, match="fact count 0"):
        grow(as_facts([]), "hybrid", 2, seed=0)
    with pytest.raises(SettingsError, match="at least 1"):
        grow(random_facts(), "fact", 0, seed=0)
    with pytest.raises(SettingsError, match="must be one of entity"):
        grow(random_facts(), "size", 2, seed=0)  # type: ignore[arg-type]


def test_growing_graph_from_names() -> None:
    facts = random_facts(600)
    named = [(f"e{s}", f"r{r}", f"e{o}") for s, r, o in facts.tolist()]
    twice = named + named[:7]
    known_repetitions = len(twice) - len(set(twice))
    graph = build_growing_graph(
        *map(list, zip(*twice, strict=True)), growth="entity", snapshots=4, seed=2, name="toy"
    )
    assert graph.name == "toy"
    assert len(graph) == 4
    assert graph.warnings == (f"{known_repetitions} repeated facts in the source were dropped",)
    back = []
    first_seen: dict[str, None] = {}
    for index, snapshot in enumerate(graph.snapshots):
        assert snapshot.index == index
        for split in (snapshot.train, snapshot.valid, snapshot.test):
            for s, r, o in split.tolist():
                assert r % 2 == 0
                name = graph.vocabulary.entity_name
                back.append((name(s), graph.vocabulary.relation_name(r), name(o)))
                first_seen |= dict.fromkeys((name(s), name(o)))
        assert snapshot.num_entities == len(first_seen)
    assert sorted(back) == sorted(set(twice))
    assert list(graph.vocabulary.entities) == list(first_seen)
    assert graph.snapshots[-1].num_relations == graph.vocabulary.num_relations


FACTS = np.array([[7, 0, 9], [9, 0, 9], [9, 4, 8], [8, 4, 7]], dtype=np.int32)
ENTITY_7, ENTITY_8, ENTITY_9, RELATION_0, RELATION_4 = range(4, 9)


@pytest.fixture
def state() -> GrowthState:
    return GrowthState(FACTS, np.random.default_rng(0))


def test_items_are_facts_then_entities_then_relations(state: GrowthState) -> None:
    assert (state.first_entity, state.first_relation, state.num_items) == (4, 7, 9)
    assert state.parts[2].tolist() == [ENTITY_9, RELATION_4, ENTITY_8]
    assert state.total == {"fact": 4, "entity": 3, "relation": 2}


def test_the_facts_of_a_part_have_a_loop_once(state: GrowthState) -> None:
    assert sorted(state.facts_with(ENTITY_9).tolist()) == [0, 1, 2]
    assert sorted(state.facts_with(ENTITY_8).tolist()) == [2, 3]
    assert sorted(state.facts_with(RELATION_4).tolist()) == [2, 3]
    assert state.loops.tolist() == [False, True, False, False]


def test_a_selected_fact_makes_its_parts_seen_once(state: GrowthState) -> None:
    assert sorted(state.add(1)) == [ENTITY_9, RELATION_0]
    assert state.add(0) == [ENTITY_7]
    assert state.count == {"fact": 2, "entity": 2, "relation": 1}
    assert state.selected_facts.tolist() == [True, True, False, False]


def test_draws_are_uniform_over_what_is_not_selected(state: GrowthState) -> None:
    pool = state.pool(range(state.num_items))
    state.add(1)
    drawn = np.bincount([pool.pick() for _ in range(6000)], minlength=state.num_items)
    assert drawn[[1, ENTITY_9, RELATION_0]].tolist() == [0, 0, 0]
    others = np.delete(drawn, [1, ENTITY_9, RELATION_0])
    assert np.abs(others - 1000).max() < 150  # five standard deviations


def test_an_empty_pool_gives_nothing(state: GrowthState) -> None:
    pool = state.pool([0, 1])
    state.add(0)
    state.add(1)
    assert pool.pick() == NOTHING
    assert state.pool().pick() == NOTHING


@pytest.fixture(scope="module")
def fb15k() -> Facts:
    if not FB15K.exists():
        pytest.skip("the source of the published datasets is not here")
    ids: dict[str, dict[str, int]] = {"entity": {}, "relation": {}}

    def number(kind: str, name: str) -> int:
        return ids[kind].setdefault(name, len(ids[kind]))

    with lzma.open(FB15K, "rt", encoding="utf-8") as lines:
        named = [line.rstrip("\n").split("\t") for line in lines]
    return as_facts(
        [(number("entity", s), number("relation", r), number("entity", o)) for s, r, o in named]
    )


@dataclass(frozen=True)
class Counts:
    """After one snapshot; `possible` facts are left although all their parts are seen."""

    new_facts: int
    entities: int
    relations: int
    possible: int


def counted(facts: Facts, growth: Growth) -> list[Counts]:
    seen_entities, seen_relations = np.zeros(facts.max() + 1, bool), np.zeros(facts.max() + 1, bool)
    known = np.zeros(len(facts), bool)
    counts = []
    for step in expand(facts, growth, 5, np.random.default_rng(11)):
        known[step.rows] = True
        seen_entities[facts[step.rows][:, [0, 2]]] = True
        seen_relations[facts[step.rows, 1]] = True
        complete = seen_entities[facts[:, [0, 2]]].all(axis=1) & seen_relations[facts[:, 1]]
        sums = seen_entities.sum(), seen_relations.sum(), (complete & ~known).sum()
        counts.append(Counts(len(step.rows), *map(int, sums)))
    return counts


def test_fb15k_237_grows_as_in_table_1(fb15k: Facts) -> None:
    counts = {growth: counted(fb15k, growth) for growth in GROWTHS}
    assert [c.entities for c in counts["entity"]] == [2909, 5817, 8725, 11633, 14541]
    assert [c.relations for c in counts["relation"]] == [48, 95, 143, 190, 237]
    assert [c.new_facts for c in counts["fact"]] == [62024, 62023, 62023, 62023, 62023]
    for growth in GROWTHS:
        assert sum(c.new_facts for c in counts[growth]) == 310_116
        assert (counts[growth][-1].entities, counts[growth][-1].relations) == (14541, 237)
    assert counts["fact"][0].relations >= 230
    assert counts["relation"][0].entities > 10_000, "few relations already reach most entities"
    assert all(c.possible == 0 for c in counts["entity"] + counts["relation"])
    assert all(c.possible > 50_000 for c in counts["fact"][:-1])
    left = [c.possible for c in counts["hybrid"]]
    assert 0 < max(left) < 20_000, "most possible facts have joined, but not all"
