"""Calibration on the hold-out set: the lists of its queries, in both directions.

The first `TOP` answers of each list are examples; those that are held-out facts are the true ones.
Known answers are not in the list. If the candidates are a sample, a false answer stands for as many
as it was drawn from. Scoring the queries costs O(queries · candidates).

Reliability is cross-fitted: the facts are in `PARTS` parts, and the answers of a list are judged by
a curve that was fitted to lists without facts of the part of its first fact. Only the temperature
is that of all lists.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts, pack, starts_run
from lkge.data.snapshots import Facts, with_inverses
from lkge.models.best import best_first
from lkge.models.predictor import Predictor
from lkge.store.answer_list import AnswerList, Features
from lkge.store.calibration import UNKNOWN, Calibration, Examples, fitted
from lkge.store.reliability import Reliability, reliability
from lkge.store.subgraph import Subgraph

TOP = 20
"""Answers of a list that are examples."""
TEMPERATURES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)
TEMPERATURE_QUERIES = 256
"""Queries that the temperature is chosen on, at most."""
PARTS = 5
"""Parts of the held-out facts; a curve that is fitted to four is tested on the fifth."""
SCORES_AT_ONCE = 1 << 22
"""Scores that are in memory at a time, about."""


class HeldOutList(NamedTuple):
    """The list of a query, the scores of all candidates (n,), and the local ids of the known
    answers and of the held-out ones."""

    relation: int
    answers: AnswerList
    scores: NDArray[np.float32]
    known: NDArray[np.int32]
    true: NDArray[np.int32]


def calibrated(
    predictor: Predictor,
    candidates: Subgraph,
    facts: Facts,
    answers: KnownFacts,
    num_entities: int,
) -> Calibration:
    """The calibration by held-out facts (k, 3). `predictor` has the rows of `candidates` only, a
    sample of `num_entities`; `answers` may have the held-out facts."""
    if not len(facts):
        return UNKNOWN
    known = KnownFacts.build([candidates.known_facts(answers, facts)])
    lists = _Lists(predictor, known, len(candidates), num_entities / len(candidates))
    rows = with_inverses(candidates.local(facts))
    groups = _by_query(rows)
    queries = [rows[group] for group in groups]
    some = np.unique(np.linspace(0, len(queries) - 1, TEMPERATURE_QUERIES).astype(np.int64))
    temperature = _temperature(lists.of([queries[place] for place in some]))
    examples = [_examples(one, temperature) for one in lists.of(queries)]
    found = fitted(_joined(examples), len(facts), temperature)
    if not found.is_known:
        return found
    parts = [group % len(facts) % PARTS for group in groups]
    return replace(found, reliability=_cross_fitted(examples, parts, found))


@dataclass(frozen=True)
class _Lists:
    """Where lists come from."""

    predictor: Predictor
    known: KnownFacts
    num_candidates: int
    inflation: float

    def of(self, queries: Sequence[Facts]) -> Iterator[HeldOutList]:
        """The list of each query, which is given by its held-out facts."""
        step = max(1, SCORES_AT_ONCE // self.num_candidates)
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            scores = self.predictor.query_scores(np.stack([facts[0] for facts in part]))
            for facts, row in zip(part, scores, strict=True):
                yield self._list(facts, row)

    def _list(self, facts: Facts, scores: NDArray[np.float32]) -> HeldOutList:
        subject, relation = facts[0, :2].tolist()
        known = np.setdiff1d(self.known.of(subject, relation, until=0), facts[:, 2])
        answers = AnswerList.of(scores, known, self.inflation)
        return HeldOutList(relation, answers, scores, known, facts[:, 2])


def _by_query(facts: Facts) -> list[NDArray[np.int64]]:
    """The rows of the facts of each query, sorted by relation, subject and object."""
    order = np.lexsort((facts[:, 2], facts[:, 0], facts[:, 1]))
    starts = np.flatnonzero(starts_run(pack(facts[order, 0], facts[order, 1])))
    return np.split(order, starts[1:])


def _temperature(lists: Iterator[HeldOutList]) -> float:
    """The temperature under which the softmax of the lists gives the held-out facts the highest
    likelihood."""
    likelihood = np.zeros(len(TEMPERATURES))
    for one in lists:
        scores, inside = one.scores[one.true], np.ones(len(one.true), np.bool_)
        for number, temperature in enumerate(TEMPERATURES):
            log_odds = one.answers.features(scores, inside, temperature).log_odds
            likelihood[number] -= np.logaddexp(0, -log_odds).sum()
    return TEMPERATURES[int(likelihood.argmax())]


def _examples(one: HeldOutList, temperature: float) -> Examples:
    """The first answers of a list."""
    scores = one.scores.copy()
    scores[one.known] = -np.inf
    best = best_first(scores, min(TOP, len(scores) - len(one.known)))
    inside, true = np.ones(len(best), np.bool_), np.isin(best, one.true)
    features = one.answers.features(scores[best], inside, temperature)
    relations = np.full(len(best), one.relation, dtype=np.int64)
    return Examples(features, relations, true, np.where(true, 1.0, one.answers.inflation))


def _joined(examples: Sequence[Examples]) -> Examples:
    """The examples of all lists."""
    log_odds, log_rank = (
        np.concatenate([each.features[column] for each in examples]) for column in (0, 1)
    )
    return Examples(
        Features(log_odds, log_rank),
        np.concatenate([each.relations for each in examples]),
        np.concatenate([each.true for each in examples]),
        np.concatenate([each.weights for each in examples]),
    )


def _cross_fitted(
    examples: Sequence[Examples], parts: Sequence[NDArray[np.int64]], found: Calibration
) -> Reliability | None:
    """The reliability of curves like `found`, each on lists that it was not fitted to; None if
    there are no others. `parts`: those of the facts of each list."""
    lists = [each for each in zip(examples, parts, strict=True) if len(each[0].relations)]
    tested, given = list[Examples](), list[NDArray[np.float64]]()
    for part in range(PARTS):
        inside = [one for one, own in lists if own[0] == part]
        others = [one for one, own in lists if part not in own]
        if not (inside and others):
            return None
        curve = fitted(_joined(others), found.facts, found.temperature)
        given += [curve.plausibility(one.features, int(one.relations[0])) for one in inside]
        tested += inside
    answers = _joined(tested)
    return reliability(len(tested), np.concatenate(given), answers.true, answers.weights)
