"""The most plausible facts that are not known: of an entity, of a relation, or of the graph.

The candidates are answers to queries (s, r, ?) that are not known and are in the range of r. The
queries are those where s has a known fact of r, or is expected to: at least half of the entities
that have one of its relations have r. The plausibility of a fact is that of its place in the list
of its query.

A query with n known answers has no answer with a plausibility above its bound, c · p: c is that of
`lkge.store.judging`, p the greatest that the calibration gives. Queries are scored in order of
their bounds until no other can have a better fact than the k found: then these are the best of all
queries. The number of queries is limited; of those with equal bounds that is a random choice.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts, pack, ranges, unpack
from lkge.data.rows import Rows
from lkge.errors import DataError, SettingsError
from lkge.models.best import best_first
from lkge.store.answer_list import LIMIT, Features
from lkge.store.contradictions import names_damage
from lkge.store.judging import SCORES_AT_ONCE
from lkge.store.reader import Reader

SCORES, MIN_QUERIES = 5 * 10**7, 20
"""So many scores are computed at most, unless a number of queries is given; but those of so many
queries."""
QUERIES_AT_ONCE = 32
SAMPLE = 5_000
"""Entities whose relations are counted to find which go together."""
MIN_COUNT = 5
"""A relation that fewer of these have lets no other be expected."""
EXPECTED = 0.5

Ints = NDArray[np.int64]
Doubles = NDArray[np.float64]


class Suggestion(NamedTuple):
    """A fact that is not known."""

    subject: str
    relation: str
    object: str
    score: float
    plausibility: float


class Suggestions(NamedTuple):
    """Facts, most plausible first. `scored` of `queries` were scored; `complete`: no other query
    has a better fact."""

    facts: Rows[Suggestion]
    scored: int
    queries: int
    complete: bool


@names_damage
def suggest(
    reader: Reader,
    *,
    subject: str | None = None,
    relation: str | None = None,
    object: str | None = None,
    k: int = 100,
    queries: int | None = None,
) -> Suggestions:
    """The k most plausible facts that are not known, with this subject or object and relation."""
    if not reader.keeps_known:
        raise DataError("suggestions need the known facts, which this graph does not keep")
    if subject is not None and object is not None:
        raise SettingsError("give a subject or an object, not both")
    names = reader.names
    backwards = int(object is not None)
    relations = np.arange(reader.num_relations) * 2 + backwards
    if relation is not None:
        relations = np.array([names.relation_id(relation) ^ backwards])
    name = object if backwards else subject
    entity = None if name is None else names.entity_id(name)
    asked = queries_of(reader.answers, relations, reader.num_entities, entity)
    limit = most_queries(reader.num_entities) if queries is None else queries
    return _best(reader, asked, k, limit)


def most_queries(num_entities: int, scores: int = SCORES) -> int:
    """How many queries have about so many scores."""
    return max(MIN_QUERIES, scores // max(1, num_entities))


def queries_of(
    answers: KnownFacts, relations: Ints, num_entities: int, entity: int | None = None
) -> "Queries":
    """The queries of these relations, of one entity or of all."""
    if entity is None:
        keys, counts = answers.keys, np.diff(answers.offsets)
    else:
        keys, counts = _keys_of(answers, np.array([entity]))
    sample = np.unique(np.linspace(0, num_entities - 1, SAMPLE).astype(np.int64))
    pairs = relations_expected(_keys_of(answers, sample)[0])
    more = _expected_keys(keys, pairs[np.isin(pairs[:, 1], relations)])
    wanted = np.isin(unpack(keys)[1], relations)
    keys, counts = keys[wanted], counts[wanted]
    keys, counts = np.append(keys, more), np.append(counts, np.zeros(len(more), np.int64))
    return Queries(*unpack(keys), counts)


def relations_expected(keys: Ints) -> Ints:
    """Pairs of relations (m, 2) such that at least half of the subjects of the first one have the
    second one; from packed queries, sorted."""
    subjects, relations = unpack(keys)
    starts = np.searchsorted(subjects, subjects, "left")
    stops = np.searchsorted(subjects, subjects, "right")
    first, second = np.repeat(relations, stops - starts), relations[ranges(starts, stops)]
    pairs, together = np.unique(pack(first, second), return_counts=True)
    first, second = unpack(pairs)
    alone, counts = first[first == second], together[first == second]
    counts = counts[np.searchsorted(alone, first)]
    often = (counts >= MIN_COUNT) & (together >= EXPECTED * counts) & (first != second)
    expected: Ints = np.stack([first, second], axis=1)[often]
    return expected


def _expected_keys(keys: Ints, pairs: Ints) -> Ints:
    """The packed queries whose relation is expected of their subject, and that have no answer."""
    subjects, relations = unpack(keys)
    order = np.argsort(relations, kind="stable")
    starts = np.searchsorted(relations[order], pairs[:, 0], "left")
    stops = np.searchsorted(relations[order], pairs[:, 0], "right")
    found = subjects[order[ranges(starts, stops)]]
    return np.setdiff1d(pack(found, np.repeat(pairs[:, 1], stops - starts)), keys)


def _keys_of(answers: KnownFacts, entities: Ints) -> tuple[Ints, Ints]:
    """The packed queries of entities, ascending, and how many answers each has."""
    queries, _, _ = answers.entries(ranges(*answers.spans_of(entities)))
    keys, counts = np.unique(queries, return_counts=True)
    return keys, counts


@dataclass(frozen=True)
class Queries:
    """Entity and relation of each query, and the number of its known answers, (q,)."""

    entities: Ints
    relations: Ints
    counts: Ints

    def __len__(self) -> int:
        return len(self.entities)

    def at(self, places: Ints) -> "Queries":
        """Some of them."""
        return Queries(self.entities[places], self.relations[places], self.counts[places])

    def bounds(self, reader: Reader) -> Doubles:
        """No new answer to a query is more plausible, (q,)."""
        pairs, places = np.unique(pack(self.counts, self.relations), return_inverse=True)
        highest = Features(np.array([LIMIT]), np.array([0.0]))
        judge = reader.judge
        values = [
            judge.incompleteness(relation, count)
            * float(judge.calibration.plausibility(highest, relation)[0])
            for count, relation in zip(*(each.tolist() for each in unpack(pairs)), strict=True)
        ]
        return np.array(values)[places] if values else np.empty(0)


class Best(NamedTuple):
    """Facts by id (n, 3), score and plausibility of each, (n,)."""

    facts: NDArray[np.int32]
    scores: NDArray[np.float32]
    plausibilities: Doubles

    def with_more(self, other: "Best", k: int) -> "Best":
        """The k best of both, best first."""
        facts = np.concatenate([self.facts, other.facts])
        scores = np.concatenate([self.scores, other.scores])
        values = np.concatenate([self.plausibilities, other.plausibilities])
        best = np.lexsort((-scores, -values))[:k]
        return Best(facts[best], scores[best], values[best])


def _best(reader: Reader, asked: Queries, k: int, limit: int) -> Suggestions:
    """Score queries in order of their bounds."""
    shuffled = np.random.default_rng(0).permutation(len(asked))
    bounds = asked.bounds(reader)[shuffled]
    order = np.argsort(-bounds, kind="stable")
    asked, bounds = asked.at(shuffled[order]), bounds[order]
    answers = _Answers(reader, k)
    found, scored = answers.none(), 0
    at_once = max(1, min(QUERIES_AT_ONCE, SCORES_AT_ONCE // max(1, reader.num_entities)))
    while scored < min(limit, len(asked)) and not _is_enough(found, k, bounds[scored]):
        stop = min(scored + at_once, limit, len(asked))
        for answer in answers.to(asked.at(np.arange(scored, stop))):
            found = found.with_more(answer, k)
        scored = stop
    complete = scored == len(asked) or _is_enough(found, k, bounds[scored])
    return Suggestions(_named(reader, found), scored, len(asked), complete)


def _is_enough(found: Best, k: int, bound: float) -> bool:
    return len(found.facts) == k and bool(found.plausibilities[-1] >= bound)


@dataclass(frozen=True)
class _Answers:
    """The k best new answers in range to queries."""

    reader: Reader
    k: int
    ranges: dict[int, NDArray[np.int32]] = field(default_factory=dict)

    def none(self) -> Best:
        return Best(np.empty((0, 3), np.int32), np.empty(0, np.float32), np.empty(0))

    def to(self, asked: Queries) -> Iterator[Best]:
        """The answers to each query, as facts."""
        pairs = np.stack([asked.entities, asked.relations, asked.entities], axis=1)
        queries = pairs.astype(np.int32)
        for query, scores in zip(queries, self.reader.query_scores(queries), strict=True):
            yield self._best((int(query[0]), int(query[1])), scores)

    def _best(self, query: tuple[int, int], scores: NDArray[np.float32]) -> Best:
        reader, (entity, relation) = self.reader, query
        known = reader.answers.of(entity, relation, reader.version)
        chosen = np.setdiff1d(self._range(relation), np.append(known, entity))
        chosen = chosen[best_first(scores[chosen], self.k)]
        values = reader.judge.judged(query, scores, chosen, scores[chosen], known).plausibility
        facts = np.empty((len(chosen), 3), np.int32)
        ends = (entity, chosen) if relation % 2 == 0 else (chosen, entity)
        facts[:, 0], facts[:, 1], facts[:, 2] = ends[0], relation & ~1, ends[1]
        return Best(facts, scores[chosen], values)

    def _range(self, relation: int) -> NDArray[np.int32]:
        if relation not in self.ranges:
            found = self.reader.judge.range_of(relation)
            self.ranges[relation] = np.setdiff1d(found, self.reader.removed)
        return self.ranges[relation]


def _named(reader: Reader, found: Best) -> Rows[Suggestion]:
    entity, relation = reader.names.entity_name, reader.names.relation_name
    columns = (column.tolist() for column in found)
    return Rows(
        Suggestion(entity(s), relation(r), entity(o), score, plausibility)
        for (s, r, o), score, plausibility in zip(*columns, strict=True)
    )
