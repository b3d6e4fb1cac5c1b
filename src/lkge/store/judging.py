"""What is said of an answer beside its score: plausibility, whether it is known, and its range.

    plausibility = p · c

p is the calibrated probability of the answer, if the query lacks an answer
(`lkge.store.calibration`). c says whether queries of the relation with n known answers lack any:

    c = min(1, ((n + 1)·M + 1) / (E + 1))

Of the queries of the relation, E have exactly n known answers, and M have more. If facts are absent
at random, the odds that a query with n answers lacks one are proportional to (n + 1)·M / E. So a
second birthplace gets a small c, a tenth friend gets 1. Nothing is known of queries without known
answers: their c is 1.

The range of a query relation is the set of entities that known facts have as its objects.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts, pack, starts_run
from lkge.data.snapshots import Facts, inverse_of
from lkge.errors import DataError
from lkge.models.predictor import Predictor
from lkge.store.answer_list import AnswerList
from lkge.store.calibration import Calibration

SCORES_AT_ONCE = 1 << 22
"""Scores that are in memory at a time, about."""


class Judged(NamedTuple):
    """Of k facts, each (k,)."""

    plausibility: NDArray[np.float64]
    known: NDArray[np.bool_]
    in_range: NDArray[np.bool_]

    @classmethod
    def empty(cls, size: int) -> Self:
        """Room for so many facts."""
        return cls(np.zeros(size), np.zeros(size, np.bool_), np.zeros(size, np.bool_))


@dataclass(frozen=True)
class Judge:
    """The known answers and the calibration of a version. Without known facts every entity is in
    every range."""

    answers: KnownFacts
    calibration: Calibration
    keeps_known: bool
    counts: dict[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)
    """Sorted numbers of answers of the queries of relations that were asked for."""

    def judged(
        self,
        query: tuple[int, int],
        list_: NDArray[np.float32],
        chosen: NDArray[np.integer],
        scores: NDArray[np.float32],
        known: NDArray[np.int32],
    ) -> Judged:
        """Answers `chosen` (k,) with their scores (k,) in the list of a query (subject, relation),
        whose candidates have the scores `list_` (n,) and of which some are known."""
        is_known = np.isin(chosen, known)
        answers, temperature = AnswerList.of(list_, known), self.calibration.temperature
        features = answers.features(scores, ~is_known, temperature)
        plausibility = self.calibration.plausibility(features, query[1])
        factor = np.where(
            is_known,
            self.incompleteness(query[1], len(known) - 1),  # as if the answer were not known
            self.incompleteness(query[1], len(known)),
        )
        return Judged(plausibility * factor, is_known, self.in_range(chosen, query[1]))

    def incompleteness(self, relation: int, num_known: int) -> float:
        """c of a query relation and n known answers."""
        if num_known <= 0:
            return 1.0
        if relation not in self.counts:
            self.counts[relation] = np.sort(self.answers.answer_counts(relation))
        counts = self.counts[relation]
        first, behind = (
            int(np.searchsorted(counts, num_known, side=side)) for side in ("left", "right")
        )
        equal, more = behind - first, len(counts) - behind
        return min(1.0, ((num_known + 1) * more + 1) / (equal + 1))

    def in_range(self, entities: NDArray[np.integer], relation: int) -> NDArray[np.bool_]:
        """Whether each entity is in the range of a query relation, (k,)."""
        if not self.keeps_known:
            return np.ones(len(entities), np.bool_)
        inverse = np.full(len(entities), inverse_of(relation))
        starts, stops = self.answers.lookup(entities, inverse)
        return starts < stops

    def range_of(self, relation: int) -> NDArray[np.int32]:
        """The range of a query relation, ascending."""
        if not self.keeps_known:
            raise DataError("a range needs the known facts, which this graph does not keep")
        return self.answers.subjects_of(inverse_of(relation))

    def facts(self, predictor: Predictor, facts: Facts, num_entities: int, until: int) -> Judged:
        """Facts (k, 3), each at its place in the list of (subject, relation, ?)."""
        result = Judged.empty(len(facts))
        for places, scores in _lists(predictor, facts, max(1, SCORES_AT_ONCE // num_entities)):
            subject, relation = facts[places[0], :2].tolist()
            known = self.answers.of(subject, relation, until)
            chosen = facts[places, 2]
            judged = self.judged((subject, relation), scores, chosen, scores[chosen], known)
            for column, values in zip(result, judged, strict=True):
                column[places] = values
        return result


def _lists(
    predictor: Predictor, facts: Facts, at_once: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Of each query: the places of its facts, and the scores of all candidates. Queries of one
    relation come together."""
    order = np.lexsort((facts[:, 0], facts[:, 1]))
    starts = np.flatnonzero(starts_run(pack(facts[order, 0], facts[order, 1])))
    groups = np.split(order, starts[1:]) if len(facts) else []
    for start in range(0, len(groups), at_once):
        part = groups[start : start + at_once]
        queries = facts[[places[0] for places in part]]
        yield from zip(part, predictor.query_scores(queries), strict=True)
