"""Cut one graph into growing snapshots: the four ways of the paper's "Dataset Construction".

Seeding. Up to ten facts, drawn uniformly, start the first snapshot; fewer when the graph is so
small that fewer already fill it.

Expanding, for snapshots i = 1 … n - 1; E, R, T are all entities, relations and facts:

entity     draw facts that touch a seen entity until |E_i| ≥ i/n |E|, then close: add every fact
           whose two entities are seen
relation   draw likewise until |R_i| ≥ i/n |R|, then close: add every fact whose relation is seen
fact       draw likewise until |T_i| ≥ i/n |T|; no closing
hybrid     draw from U = E ∪ R ∪ T; after each draw the snapshot ends with probability n/|U|

Every draw is uniform over what has not joined yet, and a fact that joins makes its entities and
relation seen. Where no fact left touches a seen entity (the graph has several components), a fact
drawn from all that are left is a new seed.

A hybrid draw of an entity or relation makes it seen. A drawn fact whose parts are not all seen
stays in U, and a fact whose parts are all seen is drawn in its place; if there is none, the draw
is repeated and does not count, so that n snapshots use up U once, on average. A snapshot does not
end before it has a fact, and leaves at least one for each that follows. Nearly all of U are facts;
so most facts that the seen entities and relations make possible join soon, but not all of them.

The last snapshot takes the rest. Dividing: of m new facts, ⌊m/5⌋ drawn at random are for
validation, as many for testing, and the others for training (3:1:1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from lkge.data.joining import NOTHING, Rows, State
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DataError, SettingsError

Growth = Literal["entity", "relation", "fact", "hybrid"]
GROWTHS: tuple[Growth, ...] = get_args(Growth)
SEEDS = 10


@dataclass(frozen=True)
class Step:
    """The rows that one snapshot adds: those drawn, in order, then those that close it.

    `seeds` are the drawn rows that need not touch a seen entity: the first ones, and one for each
    time that no fact left touched a seen entity.
    """

    drawn: Rows
    closing: Rows
    seeds: frozenset[int]

    @property
    def rows(self) -> Rows:
        """All rows of the snapshot."""
        return np.concatenate([self.drawn, self.closing])


@dataclass(frozen=True)
class Division:
    """The new facts of one snapshot, 3:1:1."""

    train: Facts
    valid: Facts
    test: Facts


def grow(facts: Facts, growth: Growth, snapshots: int = 5, *, seed: int) -> list[Division]:
    """The new facts of each snapshot, divided. Facts that stand twice in the source count once."""
    rng = np.random.default_rng(seed)
    facts = unique_facts(facts)
    steps = expand(facts, growth, snapshots, rng)
    return [divide(facts[step.rows], rng) for step in steps]


def build_growing_graph(
    subjects: Sequence[str],
    relations: Sequence[str],
    objects: Sequence[str],
    *,
    growth: Growth,
    snapshots: int = 5,
    seed: int,
    name: str,
) -> GrowingGraph:
    """A growing graph from the names of facts; ids follow the order in which names appear."""
    source = Vocabulary()
    facts = _fact_array(source, zip(subjects, relations, objects, strict=True))
    divisions = grow(facts, growth, snapshots, seed=seed)
    vocabulary = Vocabulary()
    entity, relation = source.entities, source.relations

    def renumbered(part: Facts) -> Facts:
        named = ((entity[s], relation[r // 2], entity[o]) for s, r, o in part.tolist())
        return _fact_array(vocabulary, named)

    def snapshot(index: int, division: Division) -> Snapshot:
        train, valid, test = map(renumbered, (division.train, division.valid, division.test))
        counts = vocabulary.num_entities, vocabulary.num_relations
        return Snapshot(index, train, valid, test, *counts)

    grown = tuple(snapshot(index, division) for index, division in enumerate(divisions))
    repeated = len(facts) - sum(part.num_facts for part in grown)
    warnings = (f"{repeated} repeated facts in the source were dropped",) if repeated else ()
    return GrowingGraph(name, vocabulary, grown, warnings)


def unique_facts(facts: Facts) -> Facts:
    """Each fact once, in order of first appearance; shape (m, 3)."""
    _, first = np.unique(facts, axis=0, return_index=True)
    return facts[np.sort(first)]


def divide(facts: Facts, rng: np.random.Generator) -> Division:
    """Shuffle m facts and divide them: ⌊m/5⌋ valid, ⌊m/5⌋ test, the others train."""
    held_out = len(facts) // 5
    cuts = [len(facts) - 2 * held_out, len(facts) - held_out]
    return Division(*np.split(rng.permutation(facts), cuts))


def expand(facts: Facts, growth: Growth, snapshots: int, rng: np.random.Generator) -> list[Step]:
    """The rows of distinct `facts` that each snapshot adds; every row is in exactly one step."""
    state = State(facts, rng)
    _require_enough(state, growth, snapshots)
    steps = _mix(state, snapshots) if growth == "hybrid" else _walk(state, growth, snapshots)
    return [*steps, Step(_rows(()), np.flatnonzero(~state.joined_facts), frozenset())]


def _walk(state: State, growth: Growth, snapshots: int) -> list[Step]:
    """Snapshots 1 … n - 1 of the entity, relation or fact growth."""
    everything, frontier = state.pool(range(state.first_entity)), state.pool()
    touched = np.zeros(state.first_entity, dtype=np.bool_)

    def add(row: int) -> None:
        for part in state.add(row):
            if part < state.first_relation:
                holders = state.holders(part)
                fresh = holders[~touched[holders]]
                touched[fresh] = True
                frontier.items.extend(fresh.tolist())

    def step(i: int) -> Step:
        drawn: list[int] = []
        seeds: set[int] = set()
        while state.count[growth] * snapshots < i * state.total[growth]:
            seeding = i == 1 and len(drawn) < SEEDS
            row = NOTHING if seeding else frontier.pick()
            if row == NOTHING:
                row = everything.pick()
                seeds.add(row)
            add(row)
            drawn.append(row)
        closing = _closing(state, growth)
        for row in closing.tolist():
            add(row)
        return Step(_rows(drawn), closing, frozenset(seeds))

    return [step(i) for i in range(1, snapshots)]


def _closing(state: State, growth: Growth) -> Rows:
    """The facts left that the seen entities, or the seen relations, call for."""
    if growth == "fact":
        return _rows(())
    columns = [0, 2] if growth == "entity" else [1]
    called_for = state.joined[state.parts[:, columns]].all(axis=1)
    return np.flatnonzero(called_for & ~state.joined_facts)


def _mix(state: State, snapshots: int) -> list[Step]:
    """Snapshots 1 … n - 1 of the hybrid growth. Each adds a fact and leaves some for the others."""
    universe, possible = state.pool(range(state.num_items)), state.pool()
    unseen_parts = 3 - state.loops.astype(np.int8)

    def enable(part: int) -> None:
        holders = state.holders(part)
        unseen_parts[holders] -= 1
        possible.items.extend(holders[unseen_parts[holders] == 0].tolist())

    def add(row: int) -> None:
        for part in state.add(row):
            enable(part)

    def join_one() -> int:
        """Draw until something joins: the fact, or `NOTHING` for an entity or relation."""
        while (item := universe.pick()) < state.first_entity:
            row = item if unseen_parts[item] == 0 else possible.pick()
            if row != NOTHING:
                add(row)
                return row
        state.see(item)
        enable(item)
        return NOTHING

    def step(i: int) -> Step:
        drawn = _seeded(state, add, snapshots) if i == 1 else []
        seeds = frozenset(drawn)
        most = state.total["fact"] - (snapshots - i)
        ended = False
        while state.count["fact"] < most and not (drawn and ended):
            row = join_one()
            if row != NOTHING:
                drawn.append(row)
            ended = state.draw() * state.num_items < snapshots
        return Step(_rows(drawn), _rows(()), seeds)

    return [step(i) for i in range(1, snapshots)]


def _seeded(state: State, add: Callable[[int], None], snapshots: int) -> list[int]:
    """The seeds of the hybrid growth, at most 1/n of the facts; they have joined."""
    everything = state.pool(range(state.first_entity))
    seeds: list[int] = []
    for _ in range(min(SEEDS, state.total["fact"] // snapshots)):
        seeds.append(everything.pick())
        add(seeds[-1])
    return seeds


def _require_enough(state: State, growth: Growth, snapshots: int) -> None:
    """Refuse what could leave a snapshot without facts. One fact may bring two entities."""
    if growth not in GROWTHS:
        raise SettingsError(f"growth = {growth!r} must be one of {', '.join(GROWTHS)}")
    if snapshots < 1:
        raise SettingsError(f"snapshots = {snapshots} is out of range: it must be at least 1")
    needs = {"fact": snapshots}
    if growth == "entity":
        needs["entity"] = 2 * snapshots
    if growth == "relation":
        needs["relation"] = snapshots
    for kind, need in needs.items():
        if state.total[kind] < need:
            raise DataError(
                f"too small a source for {snapshots} snapshots by {growth} growth: {kind} count "
                f"{state.total[kind]}, needed {need}; ask for fewer snapshots or another growth"
            )


def _rows(rows: Sequence[int]) -> Rows:
    return np.asarray(rows, dtype=np.int64)


def _fact_array(vocabulary: Vocabulary, named: Iterable[tuple[str, str, str]]) -> Facts:
    """Facts by id, shape (n, 3); the vocabulary takes in names that are new to it."""
    ids = [
        (vocabulary.add_entity(s), vocabulary.add_relation(r), vocabulary.add_entity(o))
        for s, r, o in named
    ]
    return np.array(ids, dtype=np.int32).reshape(-1, 3)
