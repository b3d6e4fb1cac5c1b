"""A frozen model that answers: ranks for evaluation, best answers for people."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np
from torch import Tensor

from lkge.backends import Backend, implementation
from lkge.backends.torch_search import Best, Search, best_of
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.data.vocabulary import Names
from lkge.models.parameters import Doubles, Flags, Floats, Parameters, Places, host, index
from lkge.models.queries import Candidates, GroupedQueries
from lkge.models.scores import Score

CHUNK = 1 << 16
"""Facts ranked at a time."""


class View(NamedTuple):
    """A moment of the growing graph to rank in: candidates are the first `num_candidates`
    entities, and answers known in snapshot `until` or before are left out."""

    num_candidates: int
    until: int


class Answer(NamedTuple):
    """An entity and the score of the fact that it completes."""

    name: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Predictor(ABC):
    """What evaluation and people ask of a learned model, by name where names are known. It never
    changes."""

    names: Names | None = None

    @abstractmethod
    def ranks(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Doubles:
        """The filtered realistic rank of each fact's object in each view, (n, views): the mean of
        the best and the worst rank that ties allow."""

    @abstractmethod
    def candidate_scores(self, subject: int, relation: int) -> Floats:
        """The score of (subject, relation, x) for every entity x, (n,)."""

    @abstractmethod
    def query_scores(self, queries: Facts) -> Floats:
        """`candidate_scores` of k queries, whose objects are ignored; (k, n)."""

    @abstractmethod
    def fact_scores(self, facts: Facts) -> Floats:
        """The score of each fact, (k,)."""

    def best(self, subject: int, relation: int, k: int, left: Flags) -> Best:
        """The k objects with the highest scores for (subject, relation, ?) among the entities that
        are `left` (n,)."""
        return best_of(self.candidate_scores(subject, relation), k, left)

    def with_names(self, names: Names) -> Self:
        """The same, speaking of entities and relations by name."""
        return replace(self, names=names)

    def top_k(self, subject: str, relation: str, k: int = 10) -> list[Answer]:
        """The k best objects for (subject, relation, ?), best first; `relation⁻¹` asks for
        subjects."""
        names = self.names
        if names is None:
            raise ValueError("this predictor was made without a vocabulary; it has no names")
        query = names.entity_id(subject), names.relation_id(relation)
        best = self.best(*query, k, np.ones(names.num_entities, np.bool_))
        found = zip(best.places.tolist(), best.scores.tolist(), strict=True)
        return [Answer(names.entity_name(place), score) for place, score in found]


@dataclass(frozen=True)
class TablePredictor(Predictor):
    """Prepared tables and a score. `subject` (n, d) are the rows of subjects, `entity` (n, d) those
    of candidates; only an encoder that looks at the query makes them differ."""

    entity: Tensor
    relation: Tensor
    score: Score
    backend: Backend
    subject: Tensor | None = None

    @classmethod
    def of(
        cls, tables: Parameters, score: Score, backend: Backend, names: Names | None = None
    ) -> Self:
        """Freeze a copy of the tables, prepared for the score."""
        entity = _copied(score.prepare_entities(tables.entity), tables.entity)
        relation = _copied(score.prepare_relations(tables.relation), tables.relation)
        return cls(entity, relation, score, backend, names=names)

    def queries(self, facts: Facts) -> Tensor:
        """compose(h, r) for each fact, (n, d)."""
        rows = index(facts, self.entity.device)
        askers = self.entity if self.subject is None else self.subject
        return self.score.compose(
            askers.index_select(0, rows[:, 0]), self.relation.index_select(0, rows[:, 1])
        )

    def ranks(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Doubles:
        ranks = np.empty((len(facts), len(views)), dtype=np.float64)
        for start in range(0, len(facts), CHUNK):
            part = slice(start, start + CHUNK)
            grouped = GroupedQueries.of(facts[part])
            candidates = Candidates.of(views, grouped.distinct, answers)
            above, equal = self.backend.rank_counts(
                self.score, self.entity, self.queries(grouped.distinct), grouped, candidates
            )
            ranks[part] = grouped.as_given(above + (equal + 1) / 2)
        return ranks

    @cached_property
    def search(self) -> Search:
        """The search of the entities."""
        kind = implementation(self.backend, "search", self.score)
        search: Search = kind(self.score, self.entity, self.backend)
        return search

    def best(self, subject: int, relation: int, k: int, left: Flags) -> Best:
        query = self.queries(np.array([[subject, relation, 0]], dtype=np.int32))
        return self.search.best(query, k, left)

    def candidate_scores(self, subject: int, relation: int) -> Floats:
        scores: Floats = self.query_scores(np.array([[subject, relation]], dtype=np.int32))[0]
        return scores

    def query_scores(self, queries: Facts) -> Floats:
        scores: Floats = self.backend.scores(self.score, self.queries(queries), self.entity)
        return scores

    def fact_scores(self, facts: Facts) -> Floats:
        subjects, relations, objects = index(facts, self.entity.device).T
        askers = self.entity if self.subject is None else self.subject
        scores = self.score.score(askers[subjects], self.relation[relations], self.entity[objects])
        return host(scores)


class RelationEncoder(Protocol):
    """Entities that look different to each relation."""

    def at(self, relation: int) -> TablePredictor:
        """A predictor for the queries of one relation; it has no names."""

    def each(self, relations: Sequence[int]) -> Iterator[TablePredictor]:
        """`at` of each of some relations, in their order; several may be worked on together."""


@dataclass(frozen=True)
class RelationPredictor(Predictor):
    """Asks an encoder for the tables of each query's relation."""

    encoder: RelationEncoder

    def ranks(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Doubles:
        ranks = np.empty((len(facts), len(views)), dtype=np.float64)
        for part, predictor in self._divided(facts):
            ranks[part] = predictor.ranks(facts[part], views, answers)
        return ranks

    def candidate_scores(self, subject: int, relation: int) -> Floats:
        return self.encoder.at(relation).candidate_scores(subject, relation)

    def query_scores(self, queries: Facts) -> Floats:
        parts = [
            (part, predictor.query_scores(queries[part]))
            for part, predictor in self._divided(queries)
        ]
        order = np.argsort(np.concatenate([part for part, _ in parts]))
        scores: Floats = np.concatenate([rows for _, rows in parts])[order]
        return scores

    def fact_scores(self, facts: Facts) -> Floats:
        scores = np.empty(len(facts), dtype=np.float32)
        for part, predictor in self._divided(facts):
            scores[part] = predictor.fact_scores(facts[part])
        return scores

    def _divided(self, facts: Facts) -> Iterator[tuple[Places, TablePredictor]]:
        """The places of the facts of each relation, and who answers them."""
        relations = np.unique(facts[:, 1]).tolist()
        for relation, predictor in zip(relations, self.encoder.each(relations), strict=True):
            yield np.flatnonzero(facts[:, 1] == relation), predictor


def _copied(prepared: Tensor, rows: Tensor) -> Tensor:
    """The prepared rows with their own memory, where preparing changes nothing."""
    return prepared.clone() if prepared is rows else prepared
