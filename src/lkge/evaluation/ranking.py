"""Filtered ranking: queries, candidates and filters of tests and of validation.

A fact (s, r, o) gives two queries: (s, r, ?), and (?, r, o) as (o, r⁻¹, ?).

paper    a test fact of Q_j is ranked among E_j and filtered with the facts known by snapshot j
current  it is ranked among E_i of model M_i and filtered with the facts known by snapshot i
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts, places_of
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, with_inverses
from lkge.evaluation.results import PROTOCOLS, Accuracy, accuracy, mean_reciprocal_rank
from lkge.models.predictor import Predictor, View


@dataclass(frozen=True)
class RankedTest:
    """The queries of a test set (2n, 3), and the rank of each in each protocol (2n,)."""

    queries: Facts
    ranks: Mapping[str, NDArray[np.float64]]

    def accuracies(self) -> dict[str, Accuracy]:
        """The accuracy in each protocol."""
        return {protocol: accuracy(ranks) for protocol, ranks in self.ranks.items()}


def by_relation(tests: Sequence[RankedTest], most: int) -> dict[str, dict[int, Accuracy]]:
    """By protocol and number of the relation, the accuracy over all tests: the `most` relations
    with the most test facts, these first. A query and its inverse have the same relation."""
    numbers = np.concatenate([test.queries[:, 1] for test in tests]) // 2
    relations, place, count = np.unique(numbers, return_inverse=True, return_counts=True)
    order, starts = np.argsort(place, kind="stable"), np.cumsum(count)[:-1]
    first = np.argsort(-count, kind="stable")[:most]
    found: dict[str, dict[int, Accuracy]] = {}
    for protocol in PROTOCOLS:
        parts = np.split(np.concatenate([test.ranks[protocol] for test in tests])[order], starts)
        found[protocol] = {int(relations[k]): accuracy(parts[k]) for k in first}
    return found


class Evaluator:
    """Evaluates a model of snapshot i on the test facts of snapshots j ≤ i."""

    def __init__(self, graph: GrowingGraph) -> None:
        self._snapshots = graph.snapshots
        self._answers = KnownFacts.build(
            [np.concatenate([s.train, s.valid, s.test]) for s in graph.snapshots]
        )

    def accuracies(
        self, predictor: Predictor, i: int, tests: Sequence[int]
    ) -> list[dict[str, Accuracy]]:
        """h[i, j] in each protocol for each j of `tests`."""
        return [test.accuracies() for test in self.ranked(predictor, i, tests)]

    def ranked(self, predictor: Predictor, i: int, tests: Sequence[int]) -> list[RankedTest]:
        """Each test set of `tests`, ranked with the model M_i. All are ranked in one call: a query
        that several tests share is scored once."""
        snapshots = [self._snapshots[j] for j in tests]
        queries = [with_inverses(snapshot.test) for snapshot in snapshots]
        views = [*map(_view, snapshots), _view(self._snapshots[i])]
        ranks = _split(predictor.ranks(np.concatenate(queries), views, self._answers), queries)
        return [
            RankedTest(facts, {"paper": part[:, k], "current": part[:, -1]})
            for k, (facts, part) in enumerate(zip(queries, ranks, strict=True))
        ]


class Validator:
    """Evaluates a model on validation facts during training. It has no test facts: the filter holds
    the training and validation facts up to this snapshot."""

    def __init__(self, snapshots: Sequence[Snapshot], answers: KnownFacts | None = None) -> None:
        """`answers`: the filter; built from the snapshots by default."""
        self._snapshots = snapshots
        self._answers = answers or KnownFacts.build(
            [np.concatenate([s.train, s.valid]) for s in snapshots]
        )

    def mrr(self, predictor: Predictor, facts: Facts, snapshot: Snapshot) -> float:
        """MRR of `facts` (n, 3) among E_i; nan if n = 0."""
        ranks = predictor.ranks(with_inverses(facts), [_view(snapshot)], self._answers)
        return mean_reciprocal_rank(ranks[:, 0])

    def sample(
        self, facts: Facts, snapshot: Snapshot, size: int, generator: np.random.Generator
    ) -> "ValidationSample":
        """`facts` (n, 3), to be ranked among their own entities and `size` others, drawn once."""
        drawn = generator.choice(snapshot.num_entities, size, replace=False)
        entities = np.union1d(drawn, facts[:, (0, 2)]).astype(np.int64)
        known = self._answers.within(facts, entities)
        return ValidationSample(
            entities, with_inverses(places_of(facts, entities)), KnownFacts.build([known])
        )

    def union_mrr(self, predictor: Predictor) -> float:
        """MRR on the validation facts of all snapshots so far, each ranked among the entities of
        its own snapshot. Settings are chosen by it. No method sees it during training."""
        queries = [with_inverses(snapshot.valid) for snapshot in self._snapshots]
        views = [_view(snapshot) for snapshot in self._snapshots]
        ranks = predictor.ranks(np.concatenate(queries), views, self._answers)
        own = [part[:, k] for k, part in enumerate(_split(ranks, queries))]
        return mean_reciprocal_rank(np.concatenate(own))


@dataclass(frozen=True)
class ValidationSample:
    """Queries (2n, 3) of n facts, and the entities (w,) that they are ranked among: ids of the
    queries and of the known answers are places in this array."""

    entities: NDArray[np.int64]
    queries: Facts
    answers: KnownFacts

    def mrr(self, predictor: Predictor) -> float:
        """MRR; the predictor has the rows of `entities` only."""
        view = View(len(self.entities), 0)
        return mean_reciprocal_rank(predictor.ranks(self.queries, [view], self.answers)[:, 0])


def _view(snapshot: Snapshot) -> View:
    return View(snapshot.num_entities, snapshot.index)


def _split(ranks: NDArray[np.float64], queries: Sequence[Facts]) -> list[NDArray[np.float64]]:
    """The rows of `ranks` of each part of the queries."""
    return np.split(ranks, np.cumsum([len(facts) for facts in queries])[:-1])
