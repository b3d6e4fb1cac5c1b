"""Dataset builder: divide one graph into growing snapshots by the four methods of the paper
(section "Dataset Construction").

1. Seeding. Up to ten facts, drawn uniformly, start the first snapshot; fewer if the graph is so
small that fewer fill the snapshot.

2. Expanding, for snapshots i = 1 … n - 1; E, R, T are all entities, relations and facts:

entity     draw facts with a seen entity until |E_i| ≥ i/n |E|; then add every fact whose two
           entities are seen ("closing")
relation   draw facts with a seen entity until |R_i| ≥ i/n |R|; then add every fact whose relation
           is seen
fact       draw facts with a seen entity until |T_i| ≥ i/n |T|; no closing
hybrid     draw from U = E ∪ R ∪ T; after each draw the snapshot ends with probability n/|U|

Every draw is uniform over all items that are not selected yet. A selected fact makes its entities
and its relation seen (selected). If no remaining fact has a seen entity (the graph has several
components), a fact drawn from all remaining facts is a new seed.

Hybrid: a drawn entity or relation becomes seen. If a drawn fact has an unseen entity or relation,
the fact stays in U, and a fact without unseen parts is drawn instead; if there is none, the draw is
repeated and not counted, so n snapshots use up U once on average. A snapshot has at least one fact
and leaves at least one for each later snapshot. Nearly all of U are facts, so most facts are
selected soon after their entities and relation are seen.

The last snapshot has all remaining facts.

3. Dividing: of m new facts ⌊m/5⌋, drawn at random, are for validation, as many for testing, and
the others for training (3:1:1).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, numbered
from lkge.data.vocabulary import Vocabulary
from lkge.errors import DataError, SettingsError

Growth = Literal["entity", "relation", "fact", "hybrid"]
GROWTHS: tuple[Growth, ...] = get_args(Growth)
SEEDS = 10
"""At most so many facts are drawn first, as in the paper."""

NOTHING = -1
"""The result of a draw from an empty pool."""

Rows = npt.NDArray[np.int64]
"""Row numbers of a fact array."""


class Step(NamedTuple):
    """The rows that one snapshot adds: the drawn rows in order, and the rows of the closing.

    `seeds` are the drawn rows that need not have a seen entity: the first rows, and one for each
    time that no remaining fact had a seen entity.
    """

    drawn: Rows
    closing: Rows
    seeds: frozenset[int]

    @property
    def rows(self) -> Rows:
        """All rows of the snapshot."""
        return np.concatenate([self.drawn, self.closing])


class Division(NamedTuple):
    """The new facts of one snapshot, 3:1:1."""

    train: Facts
    valid: Facts
    test: Facts


@dataclass(frozen=True)
class Pool:
    """Items to draw from uniformly. A selected item is removed when it is drawn."""

    items: list[int]
    selected: npt.NDArray[np.bool_]
    draw: Callable[[], float]

    def pick(self) -> int:
        """A random item that is not selected, or `NOTHING` if all are."""
        items = self.items
        while items:
            at = int(self.draw() * len(items))
            if not self.selected[items[at]]:
                return items[at]
            items[at] = items[-1]
            items.pop()
        return NOTHING


class GrowthState:
    """Which items are selected. Items are numbered: facts from 0, then entities, then relations."""

    def __init__(self, facts: Facts, rng: np.random.Generator):
        entities, ends = np.unique(facts[:, [0, 2]], return_inverse=True)
        relations, kinds = np.unique(facts[:, 1], return_inverse=True)
        self.total = {"fact": len(facts), "entity": len(entities), "relation": len(relations)}
        self.count = dict.fromkeys(self.total, 0)
        self.first_entity = len(facts)
        self.first_relation = len(facts) + len(entities)
        self.num_items = self.first_relation + len(relations)
        subjects, objects = ends.reshape(-1, 2).T + self.first_entity
        labels = kinds.ravel() + self.first_relation
        self.parts: Rows = np.stack([subjects, labels, objects], axis=1)
        self.loops = np.equal(subjects, objects)
        self.selected = np.zeros(self.num_items, dtype=np.bool_)
        self.selected_facts = self.selected[: self.first_entity]
        self.draw = _uniforms(rng).__next__
        self._facts, self._starts = self._facts_by_part()

    def _facts_by_part(self) -> tuple[Rows, Rows]:
        """The facts of each entity and relation, concatenated, and where those of each start."""
        rows = np.arange(self.first_entity)
        straight = ~self.loops
        parts = np.concatenate([self.parts[:, 0], self.parts[:, 1], self.parts[straight, 2]])
        facts = np.concatenate([rows, rows, rows[straight]])
        order = np.argsort(parts, kind="stable")
        starts = np.searchsorted(parts[order], np.arange(self.first_entity, self.num_items + 1))
        return facts[order], starts

    def facts_with(self, part: int) -> Rows:
        """The distinct facts that have this entity or relation."""
        at = part - self.first_entity
        return self._facts[self._starts[at] : self._starts[at + 1]]

    def pool(self, items: Iterable[int] = ()) -> Pool:
        """A pool of the items that are not selected."""
        return Pool(list(items), self.selected, self.draw)

    def see(self, part: int) -> None:
        """Select an unseen entity or relation."""
        self.selected[part] = True
        self.count["entity" if part < self.first_relation else "relation"] += 1

    def add(self, row: int) -> list[int]:
        """Select a fact; return its entities and relation that were unseen before."""
        self.selected[row] = True
        self.count["fact"] += 1
        fresh = [part for part in set(self.parts[row].tolist()) if not self.selected[part]]
        for part in fresh:
            self.see(part)
        return fresh


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    """Uniform random numbers from [0, 1), drawn in blocks for speed."""
    while True:
        yield from rng.random(4096).tolist()


def grow(facts: Facts, growth: Growth, snapshots: int = 5, *, seed: int) -> list[Division]:
    """The divided new facts of each snapshot. Repeated facts of the source count once."""
    rng = np.random.default_rng(seed)
    facts = unique_facts(facts)
    return [divide(facts[step.rows], rng) for step in expand(facts, growth, snapshots, rng)]


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
    """A growing graph from facts by name; ids follow the order of first appearance."""
    source = Vocabulary()
    facts = numbered(source, zip(subjects, relations, objects, strict=True))
    divisions = grow(facts, growth, snapshots, seed=seed)
    vocabulary = Vocabulary()

    def snapshot(index: int, division: Division) -> Snapshot:
        train, valid, test = (
            numbered(vocabulary, source.named(part.tolist())) for part in division
        )
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
    state = GrowthState(facts, rng)
    _require_enough(state, growth, snapshots)
    if growth == "hybrid":
        steps = _expand_hybrid(state, snapshots)
    else:
        steps = _expand_to_threshold(state, growth, snapshots)
    return [*steps, Step(_rows(()), np.flatnonzero(~state.selected_facts), frozenset())]


def _expand_to_threshold(state: GrowthState, growth: Growth, snapshots: int) -> list[Step]:
    """Snapshots 1 … n - 1 of the entity, relation or fact growth."""
    everything, frontier = state.pool(range(state.first_entity)), state.pool()
    touched = np.zeros(state.first_entity, dtype=np.bool_)

    def add(row: int) -> None:
        for part in state.add(row):
            if part < state.first_relation:
                rows = state.facts_with(part)
                fresh = rows[~touched[rows]]
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


def _closing(state: GrowthState, growth: Growth) -> Rows:
    """The remaining facts whose entities (entity growth) or relation (relation growth) are seen."""
    if growth == "fact":
        return _rows(())
    columns = [0, 2] if growth == "entity" else [1]
    seen = state.selected[state.parts[:, columns]].all(axis=1)
    return np.flatnonzero(seen & ~state.selected_facts)


def _expand_hybrid(state: GrowthState, snapshots: int) -> list[Step]:
    """Snapshots 1 … n - 1 of the hybrid growth."""
    universe, possible = state.pool(range(state.num_items)), state.pool()
    unseen_parts = 3 - state.loops.astype(np.int8)

    def enable(part: int) -> None:
        rows = state.facts_with(part)
        unseen_parts[rows] -= 1
        possible.items.extend(rows[unseen_parts[rows] == 0].tolist())

    def add(row: int) -> None:
        for part in state.add(row):
            enable(part)

    def select_one() -> int:
        """Draw until an item is selected: a fact, or `NOTHING` for an entity or relation."""
        while (item := universe.pick()) < state.first_entity:
            row = item if unseen_parts[item] == 0 else possible.pick()
            if row != NOTHING:
                add(row)
                return row
        state.see(item)
        enable(item)
        return NOTHING

    def select_seeds() -> list[int]:
        everything, seeds = state.pool(range(state.first_entity)), []
        for _ in range(min(SEEDS, state.total["fact"] // snapshots)):
            seeds.append(everything.pick())
            add(seeds[-1])
        return seeds

    def step(i: int) -> Step:
        drawn = select_seeds() if i == 1 else []
        seeds = frozenset(drawn)
        most = state.total["fact"] - (snapshots - i)
        ended = False
        while state.count["fact"] < most and not (drawn and ended):
            row = select_one()
            if row != NOTHING:
                drawn.append(row)
            ended = state.draw() * state.num_items < snapshots
        return Step(_rows(drawn), _rows(()), seeds)

    return [step(i) for i in range(1, snapshots)]


def _require_enough(state: GrowthState, growth: Growth, snapshots: int) -> None:
    """Raise an error if a snapshot could have no facts. A fact may have two new entities."""
    if growth not in GROWTHS:
        raise SettingsError(f"growth = {growth!r} must be one of {', '.join(GROWTHS)}")
    if snapshots < 1:
        raise SettingsError(f"snapshots = {snapshots} is out of range: it must be at least 1")
    needs = {"fact": snapshots, "entity": 2 * snapshots, "relation": snapshots}
    for kind in ("fact", growth):
        if kind in needs and state.total[kind] < needs[kind]:
            raise DataError(
                f"too small a source for {snapshots} snapshots by {growth} growth: {kind} count "
                f"{state.total[kind]}, needed {needs[kind]}; ask for fewer snapshots or another "
                "growth"
            )


def _rows(rows: Sequence[int]) -> Rows:
    return np.asarray(rows, dtype=np.int64)
