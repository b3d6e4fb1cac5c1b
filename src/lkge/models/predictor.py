"""A frozen model that answers: ranks for evaluation, best answers for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.data.vocabulary import Names
from lkge.kernels.counting import count_above, product_slack
from lkge.kernels.ranking import count_ahead
from lkge.kernels.scan import (
    all_l1_distances,
    all_l2_distances,
    all_moduli_distances,
    l1_distances,
    l2_distances,
    moduli_distances,
)
from lkge.models.questions import Questions, Rivals
from lkge.models.scores import RotatE, Score, TransE, TransEL2
from lkge.models.tables import Tables

CHUNK = 1 << 16
"""Facts ranked at a time."""
BLOCK = 1 << 22
"""Scores that a kernel counts at a time, so that they stay near to where they were computed."""
PLAIN_CHUNK = 256
"""Facts ranked at a time by the plain twin."""

Floats = NDArray[np.float32]
Counts = tuple[NDArray[np.int64], NDArray[np.int64]]

Scan = Callable[[Floats, Floats], Floats]
DISTANCES: Mapping[str, tuple[Scan, Scan]] = MappingProxyType(
    {
        TransE.name: (l1_distances, all_l1_distances),
        TransEL2.name: (l2_distances, all_l2_distances),
        RotatE.name: (moduli_distances, all_moduli_distances),
    }
)
"""Scores that are distances, with kernels that take one question and many past all candidates."""


class View(NamedTuple):
    """A moment of the growing graph to rank in: candidates are the first `num_candidates`
    entities, and answers known in snapshot `until` or before are left out."""

    num_candidates: int
    until: int


class Answer(NamedTuple):
    """An entity and the score of the fact that it completes."""

    name: str
    score: float


class Predictor(Protocol):
    """What evaluation and people ask of a learned model. It never changes."""

    def ranks(
        self, facts: Facts, views: Sequence[View], answers: KnownFacts
    ) -> NDArray[np.float64]:
        """The filtered realistic rank of each fact's object in each view, (n, views).

        Realistic: the mean of the best and the worst rank that ties allow.
        """
        ...

    def top_k(self, subject: str, relation: str, k: int = 10) -> list[Answer]:
        """The k best objects for (subject, relation, ?), best first; `relation⁻¹` asks for
        subjects."""
        ...

    def candidate_scores(self, subject: int, relation: int) -> Floats:
        """The score of (subject, relation, x) for every entity x, (n,)."""
        ...

    def fact_scores(self, facts: Facts) -> Floats:
        """The score of each fact, (k,)."""
        ...

    def with_names(self, names: Names) -> Self:
        """The same, speaking of entities and relations by name."""
        ...


@dataclass(frozen=True)
class TablePredictor:
    """Prepared tables, a score, and names when they are known.

    `subject` (n, d) are the rows of entities that ask, `entity` (n, d) of those that answer; only
    an encoder that looks at the query makes them differ.
    """

    entity: Tensor
    relation: Tensor
    score: Score
    fused: bool
    names: Names | None = None
    subject: Tensor | None = None

    @classmethod
    def of(
        cls, tables: Tables, score: Score, fused: bool, names: Names | None = None
    ) -> TablePredictor:
        """Freeze a copy of the tables, prepared for the score."""
        entity = _copied(score.prepare_entities(tables.entity), tables.entity)
        relation = _copied(score.prepare_relations(tables.relation), tables.relation)
        return cls(entity, relation, score, fused, names)

    def with_names(self, names: Names) -> TablePredictor:
        """See `Predictor`."""
        return replace(self, names=names)

    def queries(self, facts: Facts) -> Tensor:
        """compose(h, r) for each fact, (n, d)."""
        index = torch.from_numpy(facts).long().to(self.entity.device)
        subjects = self.entity if self.subject is None else self.subject
        return self.score.compose(
            subjects.index_select(0, index[:, 0]), self.relation.index_select(0, index[:, 1])
        )

    def ranks(
        self, facts: Facts, views: Sequence[View], answers: KnownFacts
    ) -> NDArray[np.float64]:
        """See `Predictor`."""
        ranks = np.empty((len(facts), len(views)), dtype=np.float64)
        for start in range(0, len(facts), CHUNK):
            part = slice(start, start + CHUNK)
            above, equal = self._count(facts[part], views, answers)
            ranks[part] = above + (equal + 1) / 2
        return ranks

    def _count(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Counts:
        """How many candidates score higher than each fact's object, and how many as high, itself
        included; (n, views) both."""
        if not self.fused:
            return self._count_plain(facts, views, answers)
        asked = Questions.of(facts)
        count = self._count_near if self.score.name == TransE.name else self._count_scored
        limits, until = zip(*views, strict=True)
        above, equal = count(asked, Rivals.of(limits, until, asked, answers))
        return asked.as_given(above), asked.as_given(equal)

    def _count_near(self, asked: Questions, rivals: Rivals) -> Counts:
        """By L1 distances, most of which need not be known exactly."""
        queries = self.queries(asked.distinct).numpy()
        return count_ahead(queries, asked.numbers, self.entity.numpy(), asked.targets, *rivals)

    def _count_scored(self, asked: Questions, rivals: Rivals) -> Counts:
        """By the scores of all candidates, a block of questions at a time."""
        queries, targets = self.queries(asked.distinct), asked.targets
        slack = (
            product_slack(queries.numpy(), self.entity.numpy())
            if self.score.is_bilinear
            else np.zeros(len(queries), dtype=np.float32)
        )
        above = np.empty((len(targets), len(rivals.limits)), dtype=np.int64)
        equal = np.empty_like(above)
        size = max(1, BLOCK // max(1, len(self.entity)))
        for start in range(0, len(queries), size):
            bounds = asked.bounds[start : start + size + 1]
            part = slice(bounds[0], bounds[-1])
            block = queries[start : start + size]
            above[part], equal[part] = count_above(
                self._scores(block),
                block.numpy(),
                self.entity.numpy(),
                slack[start : start + size],
                bounds - bounds[0],
                targets[part],
                *rivals.at(slice(start, start + size)),
            )
        return above, equal

    def _count_plain(self, facts: Facts, views: Sequence[View], answers: KnownFacts) -> Counts:
        """The twin of both: all scores, then two comparisons."""
        higher = np.zeros((len(facts), len(views)), dtype=np.int64)
        equal = np.zeros_like(higher)
        queries = self.queries(facts)
        for start in range(0, len(facts), PLAIN_CHUNK):
            part = slice(start, start + PLAIN_CHUNK)
            scores = self._plain_scores(queries[part])
            own = scores[torch.arange(len(scores)), torch.from_numpy(facts[part, 2]).long()]
            above, below = scores > own[:, None], scores < own[:, None]
            for v, view in enumerate(views):
                keep = _candidates(facts[part], view, answers, scores.shape[1]).to(scores.device)
                higher[part, v] = (above & keep).sum(1).cpu().numpy()
                equal[part, v] = (~(above | below) & keep).sum(1).cpu().numpy()
        return higher, equal

    def _plain_scores(self, queries: Tensor) -> Tensor:
        """The score of every entity for every query, (q, n), entities with one row alike: a matrix
        product, which may round them differently, has more digits than are kept."""
        if self.score.is_bilinear and queries.device.type != "mps":
            return self.score.candidates(queries.double(), self.entity.double()).float()
        return self.score.candidates(queries, self.entity)

    def question_scores(self, asked: Facts) -> Floats:
        """The score of every entity as the answer to each question (q, ≥ 2), (q, n)."""
        return self._scores(self.queries(asked))

    def _scores(self, queries: Tensor) -> Floats:
        """The score of every entity for every query, (q, n), by the fastest way."""
        if self.fused and self.score.name in DISTANCES:
            return -DISTANCES[self.score.name][1](queries.numpy(), self.entity.numpy())
        return self.score.candidates(queries, self.entity).cpu().numpy()

    def candidate_scores(self, subject: int, relation: int) -> Floats:
        """See `Predictor`."""
        query = self.queries(np.array([[subject, relation, 0]], dtype=np.int32))
        if self.fused and self.score.name in DISTANCES:
            return -DISTANCES[self.score.name][0](query.numpy(), self.entity.numpy())
        return self.score.candidates(query, self.entity)[0].cpu().numpy()

    def fact_scores(self, facts: Facts) -> Floats:
        """See `Predictor`."""
        subjects, relations, objects = torch.from_numpy(facts).long().to(self.entity.device).T
        askers = self.entity if self.subject is None else self.subject
        scores = self.score.score(askers[subjects], self.relation[relations], self.entity[objects])
        return scores.cpu().numpy()

    def top_k(self, subject: str, relation: str, k: int = 10) -> list[Answer]:
        """See `Predictor`."""
        return _top_k(self, known_names(self.names), subject, relation, k)


class RelationEncoder(Protocol):
    """Entities that look different to each relation."""

    def at(self, relation: int) -> TablePredictor:
        """A predictor for the queries of one relation; it has no names."""
        ...

    def each(self, relations: Sequence[int]) -> Iterator[TablePredictor]:
        """`at` of each of some relations, in their order; several may be worked on together."""
        ...


@dataclass(frozen=True)
class RelationPredictor:
    """Asks an encoder for the tables of each query's relation."""

    encoder: RelationEncoder
    names: Names | None = None

    def with_names(self, names: Names) -> RelationPredictor:
        """See `Predictor`."""
        return replace(self, names=names)

    def ranks(
        self, facts: Facts, views: Sequence[View], answers: KnownFacts
    ) -> NDArray[np.float64]:
        """See `Predictor`."""
        ranks = np.empty((len(facts), len(views)), dtype=np.float64)
        for part, predictor in self._divided(facts):
            ranks[part] = predictor.ranks(facts[part], views, answers)
        return ranks

    def candidate_scores(self, subject: int, relation: int) -> Floats:
        """See `Predictor`."""
        return self.encoder.at(relation).candidate_scores(subject, relation)

    def fact_scores(self, facts: Facts) -> Floats:
        """See `Predictor`."""
        scores = np.empty(len(facts), dtype=np.float32)
        for part, predictor in self._divided(facts):
            scores[part] = predictor.fact_scores(facts[part])
        return scores

    def _divided(self, facts: Facts) -> Iterator[tuple[NDArray[np.int64], TablePredictor]]:
        """The places of the facts of each relation, and who answers them."""
        relations = np.unique(facts[:, 1]).tolist()
        for relation, predictor in zip(relations, self.encoder.each(relations), strict=True):
            yield np.flatnonzero(facts[:, 1] == relation), predictor

    def top_k(self, subject: str, relation: str, k: int = 10) -> list[Answer]:
        """See `Predictor`."""
        return _top_k(self, known_names(self.names), subject, relation, k)


def _copied(prepared: Tensor, rows: Tensor) -> Tensor:
    """The prepared rows with their own memory, where preparing changes nothing."""
    return prepared.clone() if prepared is rows else prepared


def known_names(names: Names | None) -> Names:
    """The names of a predictor that was asked by name."""
    if names is None:
        raise ValueError("this predictor was made without a vocabulary; it has no names")
    return names


def best_first(scores: Floats, k: int) -> NDArray[np.int64]:
    """The places of the k highest scores, best first; of equal ones, the first comes first."""
    k = min(k, len(scores))
    worst = np.partition(scores, len(scores) - k)[len(scores) - k] if k else np.inf
    places = np.flatnonzero(scores >= worst)
    return places[np.argsort(-scores[places], kind="stable")][:k]


def _top_k(predictor: Predictor, names: Names, subject: str, relation: str, k: int) -> list[Answer]:
    scores = predictor.candidate_scores(names.entity_id(subject), names.relation_id(relation))
    return [
        Answer(names.entity_name(int(place)), float(scores[place]))
        for place in best_first(scores, k)
    ]


def _candidates(facts: Facts, view: View, answers: KnownFacts, width: int) -> Tensor:
    """True where an entity competes with the fact's object in this view, (n, width)."""
    keep = torch.zeros(len(facts), width, dtype=torch.bool)
    keep[:, : view.num_candidates] = True
    for row, (subject, relation, target) in enumerate(facts.tolist()):
        others = answers.of(subject, relation, view.until)
        keep[row, torch.from_numpy(others[others < width]).long()] = False
        keep[row, target] = True
    return keep
