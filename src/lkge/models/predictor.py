"""A frozen model that answers: ranks for evaluation, best answers for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.data.answers import KnownAnswers
from lkge.data.snapshots import Facts
from lkge.data.vocabulary import Names
from lkge.kernels.ranking import count_ahead
from lkge.kernels.scan import l1_distances
from lkge.models.scores import Score
from lkge.models.tables import Tables

CHUNK = 1 << 16
"""Queries ranked at a time by the kernel; the plain twin takes fewer."""


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
        self, facts: Facts, views: Sequence[View], answers: KnownAnswers
    ) -> NDArray[np.float64]:
        """The filtered realistic rank of each fact's object in each view, (n, views).

        Realistic: the mean of the best and the worst rank that ties allow.
        """
        ...

    def top_k(self, subject: str, relation: str, k: int = 10) -> list[Answer]:
        """The k best objects for (subject, relation, ?), best first; `relation⁻¹` asks for
        subjects."""
        ...

    def candidate_scores(self, subject: int, relation: int) -> NDArray[np.float32]:
        """The score of (subject, relation, x) for every entity x, (n,)."""
        ...

    def fact_scores(self, facts: Facts) -> NDArray[np.float32]:
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
        return cls(
            score.prepare(tables.entity), score.prepare(tables.relation), score, fused, names
        )

    def with_names(self, names: Names) -> TablePredictor:
        """See `Predictor`."""
        return replace(self, names=names)

    def queries(self, facts: Facts) -> Tensor:
        """compose(h, r) for each fact, (n, d)."""
        index = torch.from_numpy(facts).long().to(self.entity.device)
        subjects = self.entity if self.subject is None else self.subject
        return self.score.compose(subjects[index[:, 0]], self.relation[index[:, 1]])

    def ranks(
        self, facts: Facts, views: Sequence[View], answers: KnownAnswers
    ) -> NDArray[np.float64]:
        """See `Predictor`."""
        count = self._count_fused if self.fused else self._count_plain
        ranks = np.empty((len(facts), len(views)), dtype=np.float64)
        for start in range(0, len(facts), CHUNK):
            part = slice(start, start + CHUNK)
            nearer, equal = count(facts[part], views, answers)
            ranks[part] = nearer + (equal + 1) / 2
        return ranks

    def _count_fused(
        self, facts: Facts, views: Sequence[View], answers: KnownAnswers
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Facts that ask the same question stand together, and their query is scored once."""
        order = np.lexsort((facts[:, 1], facts[:, 0]))
        facts = facts[order]
        asked = np.append(True, np.any(facts[1:, :2] != facts[:-1, :2], axis=1))
        questions = facts[asked]
        starts, stops = answers.lookup(questions[:, 0], questions[:, 1])
        nearer, equal = count_ahead(
            self.queries(questions).numpy(),
            (np.cumsum(asked) - 1).astype(np.int32),
            self.entity.numpy(),
            np.ascontiguousarray(facts[:, 2]),
            np.array([view.num_candidates for view in views], dtype=np.int32),
            starts,
            stops,
            answers.answers,
            answers.since,
            np.array([view.until for view in views], dtype=np.int32),
        )
        back = np.argsort(order)
        return nearer[back], equal[back]

    def _count_plain(
        self, facts: Facts, views: Sequence[View], answers: KnownAnswers
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The twin of the kernel: all distances, then two comparisons."""
        nearer = np.zeros((len(facts), len(views)), dtype=np.int64)
        equal = np.zeros_like(nearer)
        for start, scores in self._score_chunks(facts):
            part = slice(start, start + len(scores))
            own = scores[torch.arange(len(scores)), torch.from_numpy(facts[part, 2]).long()]
            above, level = scores > own[:, None], scores == own[:, None]
            for v, view in enumerate(views):
                keep = _candidates(facts[part], view, answers, scores.shape[1]).to(scores.device)
                nearer[part, v] = (above & keep).sum(1).cpu().numpy()
                equal[part, v] = (level & keep).sum(1).cpu().numpy()
        return nearer, equal

    def _score_chunks(self, facts: Facts, size: int = 256) -> Iterator[tuple[int, Tensor]]:
        queries = self.queries(facts)
        for start in range(0, len(facts), size):
            yield start, -torch.cdist(queries[start : start + size], self.entity, p=1)

    def candidate_scores(self, subject: int, relation: int) -> NDArray[np.float32]:
        """See `Predictor`."""
        fact = np.array([[subject, relation, 0]], dtype=np.int32)
        if self.fused and self.score.name == "transe":
            return -l1_distances(self.queries(fact).numpy(), self.entity.numpy())
        _, scores = next(self._score_chunks(fact))
        return scores[0].cpu().numpy()

    def fact_scores(self, facts: Facts) -> NDArray[np.float32]:
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


@dataclass(frozen=True)
class RelationPredictor:
    """Asks an encoder for the tables of each query's relation."""

    encoder: RelationEncoder
    names: Names | None = None

    def with_names(self, names: Names) -> RelationPredictor:
        """See `Predictor`."""
        return replace(self, names=names)

    def ranks(
        self, facts: Facts, views: Sequence[View], answers: KnownAnswers
    ) -> NDArray[np.float64]:
        """See `Predictor`."""
        ranks = np.empty((len(facts), len(views)), dtype=np.float64)
        for relation in np.unique(facts[:, 1]):
            part = np.flatnonzero(facts[:, 1] == relation)
            ranks[part] = self.encoder.at(int(relation)).ranks(facts[part], views, answers)
        return ranks

    def candidate_scores(self, subject: int, relation: int) -> NDArray[np.float32]:
        """See `Predictor`."""
        return self.encoder.at(relation).candidate_scores(subject, relation)

    def fact_scores(self, facts: Facts) -> NDArray[np.float32]:
        """See `Predictor`."""
        scores = np.empty(len(facts), dtype=np.float32)
        for relation in np.unique(facts[:, 1]):
            part = np.flatnonzero(facts[:, 1] == relation)
            scores[part] = self.encoder.at(int(relation)).fact_scores(facts[part])
        return scores

    def top_k(self, subject: str, relation: str, k: int = 10) -> list[Answer]:
        """See `Predictor`."""
        return _top_k(self, known_names(self.names), subject, relation, k)


def known_names(names: Names | None) -> Names:
    """The names of a predictor that was asked by name."""
    if names is None:
        raise ValueError("this predictor was made without a vocabulary; it has no names")
    return names


def best_first(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
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


def _candidates(facts: Facts, view: View, answers: KnownAnswers, width: int) -> Tensor:
    """True where an entity competes with the fact's object in this view, (n, width)."""
    keep = torch.zeros(len(facts), width, dtype=torch.bool)
    keep[:, : view.num_candidates] = True
    for row, (subject, relation, target) in enumerate(facts.tolist()):
        others = answers.of(subject, relation, view.until)
        keep[row, torch.from_numpy(others[others < width]).long()] = False
        keep[row, target] = True
    return keep
