"""How many training facts each row has: |N(x)|."""

from __future__ import annotations

import numpy as np
import torch

from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.models.parameters import Parameters


def no_counts() -> Parameters:
    """Counts before the first snapshot."""
    return Parameters(torch.zeros(0), torch.zeros(0))


def fact_counts(facts: Facts, snapshot: Snapshot) -> Parameters:
    """|N(x)| for each entity (n,) and relation (2m,), float32. A fact counts for its subject, its
    object, its relation and its relation's inverse."""
    edges = torch.from_numpy(with_inverses(facts)).long()
    return Parameters(
        torch.bincount(edges[:, 0], minlength=snapshot.num_entities).float(),
        torch.bincount(edges[:, 1], minlength=2 * snapshot.num_relations).float(),
    )


def num_facts(counts: Parameters) -> int:
    """The facts behind the counts: each has counted for two entities. Where the rows at hand are
    not all of a graph, those that are theirs."""
    return int(counts.entity.sum(dtype=torch.float64)) // 2


def nothing_new(facts: Facts, counts: Parameters) -> float:
    """The share of `facts` whose entities and relation have all been counted before."""
    if not len(facts):
        return 0.0
    entities, relations = (
        np.flatnonzero(column.numpy()) for column in (counts.entity, counts.relation)
    )
    known = np.isin(facts[:, [0, 2]], entities).all(1) & np.isin(facts[:, 1], relations)
    return float(known.mean())


def without(counts: Parameters, facts: Facts) -> Parameters:
    """Counts that no longer contain `facts`; none falls below zero."""
    edges = torch.from_numpy(with_inverses(facts)).long()
    gone = counts.map(torch.zeros_like)
    gone.entity.index_add_(0, edges[:, 0], torch.ones(len(edges)))
    gone.relation.index_add_(0, edges[:, 1], torch.ones(len(edges)))
    return counts.map(lambda count, lost: (count - lost).clamp(min=0), gone)


def padded(counts: Parameters, like: Parameters) -> Parameters:
    """Counts with zeros for rows that they do not have yet."""
    return counts.grown_to(like.map(torch.zeros_like))
