"""Which questions are asked of a model, among which candidates, and what is left out.

Every fact (s, r, o) asks twice: (s, r, ?), and (?, r, o) as (o, r⁻¹, ?).

paper    a test fact of Q_j is ranked among E_j and filtered with the facts known by snapshot j
current  it is ranked among all that M_i has seen and filtered with all facts known by snapshot i
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lkge.data.answers import KnownAnswers
from lkge.data.snapshots import Facts, GrowingGraph, Snapshot, with_inverses
from lkge.evaluation.metrics import accuracy, mean_reciprocal_rank
from lkge.evaluation.results import PROTOCOLS, Accuracy
from lkge.models.predictor import Predictor, View


class Examiner:
    """Asks a model of snapshot i about the test facts of snapshot j ≤ i."""

    def __init__(self, graph: GrowingGraph) -> None:
        self._snapshots = graph.snapshots
        self._answers = KnownAnswers.build(
            [np.concatenate([s.train, s.valid, s.test]) for s in graph.snapshots]
        )

    def accuracy(self, predictor: Predictor, i: int, j: int) -> dict[str, Accuracy]:
        """h[i, j] in each protocol."""
        then, now = self._snapshots[j], self._snapshots[i]
        views = [View(moment.num_entities, moment.index) for moment in (then, now)]
        ranks = predictor.ranks(with_inverses(then.test), views, self._answers)
        return {name: accuracy(ranks[:, p]) for p, name in enumerate(PROTOCOLS)}


class Validator:
    """Asks about validation facts while a snapshot is learned. It knows no test fact at all:
    what is filtered are the training and validation facts up to this snapshot."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = snapshots
        self._answers = KnownAnswers.build([np.concatenate([s.train, s.valid]) for s in snapshots])

    def mrr(self, predictor: Predictor, facts: Facts, snapshot: Snapshot) -> float:
        """MRR of `facts` among E_i; nan without facts."""
        view = View(snapshot.num_entities, snapshot.index)
        ranks = predictor.ranks(with_inverses(facts), [view], self._answers)
        return mean_reciprocal_rank(ranks[:, 0])

    def union_mrr(self, predictor: Predictor) -> float:
        """MRR on all validation facts so far, each ranked among the entities of its own snapshot:
        what a method has kept, for choosing its settings. No method sees it while learning."""
        views = [View(moment.num_entities, moment.index) for moment in self._snapshots]
        ranks = [
            predictor.ranks(with_inverses(moment.valid), [view], self._answers)[:, 0]
            for moment, view in zip(self._snapshots, views, strict=True)
        ]
        return mean_reciprocal_rank(np.concatenate(ranks))
