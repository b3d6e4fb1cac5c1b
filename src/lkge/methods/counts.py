"""How many training facts each row has, |N(x)|, and what the methods that carry it share."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.methods.base import Method, State
from lkge.methods.profiles import ONE_COUNT
from lkge.models.model import Model
from lkge.models.parameters import Parameters


def fact_counts(facts: Facts, snapshot: Snapshot) -> Parameters:
    """|N(x)| for each entity (n,) and relation (2m,), float32. A fact counts for its subject, its
    object, its relation and its relation's inverse."""
    return _counted(facts, snapshot.num_entities, 2 * snapshot.num_relations)


def _counted(facts: Facts, entities: int, relations: int) -> Parameters:
    subjects, between, _ = torch.from_numpy(with_inverses(facts)).long().T
    return Parameters(
        torch.bincount(subjects, minlength=entities).float(),
        torch.bincount(between, minlength=relations).float(),
    )


def num_facts(counts: Parameters) -> int:
    """The facts behind the counts: each has counted for two entities. Where the rows at hand are
    not all of a graph, those that are theirs."""
    return int(counts.entity.sum(dtype=torch.float64)) // 2


def nothing_new(facts: Facts, counts: Parameters) -> float:
    """The share of `facts` whose entities and relation have all been counted before."""
    if not len(facts):
        return 0.0
    entities, relations = (np.flatnonzero(column.numpy()) for column in counts)
    known = np.isin(facts[:, [0, 2]], entities).all(1) & np.isin(facts[:, 1], relations)
    return float(known.mean())


def padded(counts: Parameters, like: Parameters) -> Parameters:
    """Counts with zeros for rows that they do not have yet."""
    return counts.grown_to(like.map(torch.zeros_like))


class CountingMethod(Method):
    """Carries the counts |N(x)| over all snapshots so far."""

    keeps = ONE_COUNT

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self._past = Parameters(torch.zeros(0), torch.zeros(0))

    def retract(self, facts: Facts) -> None:
        """They no longer count; no count falls below zero."""
        gone = _counted(facts, *map(len, self._past))
        self._past = self._past.map(lambda count, lost: (count - lost).clamp(min=0), gone)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Count the facts that are now old."""
        new = fact_counts(snapshot.train, snapshot)
        self._past = padded(self._past, new).map(torch.add, new)

    def state(self) -> State:
        """The counts."""
        return self._past.named("facts")

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        self._past = Parameters.from_named(state, "facts")
