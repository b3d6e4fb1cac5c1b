"""How many training facts each row has: |N(x)|."""

from __future__ import annotations

import torch

from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.models.tables import Tables


def no_counts() -> Tables:
    """Counts before the first snapshot."""
    return Tables(torch.zeros(0), torch.zeros(0))


def fact_counts(facts: Facts, snapshot: Snapshot) -> Tables:
    """|N(x)| for each entity (n,) and relation (2m,), float32. A fact counts for its subject, its
    object, its relation and its relation's inverse."""
    edges = torch.from_numpy(with_inverses(facts)).long()
    return Tables(
        torch.bincount(edges[:, 0], minlength=snapshot.num_entities).float(),
        torch.bincount(edges[:, 1], minlength=2 * snapshot.num_relations).float(),
    )


def padded(counts: Tables, like: Tables) -> Tables:
    """Counts with zeros for rows that they do not have yet."""
    return counts.grown_to(like.map(torch.zeros_like))
