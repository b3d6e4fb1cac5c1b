"""Which questions are asked of a model, among which candidates, and what is left out.

Every fact (s, r, o) asks twice: (s, r, ?), and (?, r, o) as (o, r⁻¹, ?).

paper    a test fact of Q_j is ranked among E_j and filtered with the facts known by snapshot j
current  it is ranked among all that M_i has seen and filtered with all facts known by snapshot i
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, with_inverses
from lkge.evaluation.metrics import accuracy, mean_reciprocal_rank
from lkge.evaluation.results import PROTOCOLS, Accuracy
from lkge.models.predictor import Predictor, View


class Examiner:
    """Asks a model of snapshot i about the test facts of snapshot j ≤ i."""

    def __init__(self, graph: GrowingGraph) -> None:
        self._snapshots = graph.snapshots
        self._answers = KnownFacts.build(
            [np.concatenate([s.train, s.valid, s.test]) for s in graph.snapshots]
        )

    def accuracies(
        self, predictor: Predictor, i: int, tests: Sequence[int]
    ) -> list[dict[str, Accuracy]]:
        """h[i, j] in each protocol for each j of `tests`; all are asked at once, for a question
        that several tests ask is answered once."""
        moments = [self._snapshots[j] for j in tests]
        asked = [with_inverses(moment.test) for moment in moments]
        views = [
            View(moment.num_entities, moment.index) for moment in (*moments, self._snapshots[i])
        ]
        ranks = predictor.ranks(np.concatenate(asked), views, self._answers)
        return [
            dict(zip(PROTOCOLS, (accuracy(part[:, k]), accuracy(part[:, -1])), strict=True))
            for k, part in enumerate(_divided(ranks, asked))
        ]


class Validator:
    """Asks about validation facts while a snapshot is learned. It knows no test fact at all:
    what is filtered are the training and validation facts up to this snapshot."""

    def __init__(self, snapshots: Sequence[Snapshot], answers: KnownFacts | None = None) -> None:
        """`answers`: what to filter with, where it is known otherwise than from the snapshots."""
        self._snapshots = snapshots
        self._answers = answers or KnownFacts.build(
            [np.concatenate([s.train, s.valid]) for s in snapshots]
        )

    def mrr(self, predictor: Predictor, facts: Facts, snapshot: Snapshot) -> float:
        """MRR of `facts` among E_i; nan without facts."""
        view = View(snapshot.num_entities, snapshot.index)
        ranks = predictor.ranks(with_inverses(facts), [view], self._answers)
        return mean_reciprocal_rank(ranks[:, 0])

    def union_mrr(self, predictor: Predictor) -> float:
        """MRR on all validation facts so far, each ranked among the entities of its own snapshot:
        what a method has kept, for choosing its settings. No method sees it while learning."""
        asked = [with_inverses(moment.valid) for moment in self._snapshots]
        views = [View(moment.num_entities, moment.index) for moment in self._snapshots]
        ranks = predictor.ranks(np.concatenate(asked), views, self._answers)
        own = [part[:, k] for k, part in enumerate(_divided(ranks, asked))]
        return mean_reciprocal_rank(np.concatenate(own))


def _divided(ranks: NDArray[np.float64], asked: Sequence[Facts]) -> list[NDArray[np.float64]]:
    """The rows of `ranks` that belong to each part of what was asked."""
    return np.split(ranks, np.cumsum([len(facts) for facts in asked])[:-1])
