"""Which old queries (h, r, ?) to replay: counted while facts were there, or drawn from the model.

`QueryCounts` is what is left of old facts when no object is kept. Without it, `pseudo_queries`
draws queries whose answers the old model is sure of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.backends.torch_softmax import blocks_of
from lkge.data.known_facts import pack
from lkge.data.snapshots import Facts, with_inverses
from lkge.methods.replay_queries_settings import PseudoQueryConfig
from lkge.models.parameters import Parameters, index
from lkge.models.scores import Score

Counts = NDArray[np.int32]
BLOCK = 1 << 21
"""Numbers that a block of queries may take."""


@dataclass(frozen=True)
class QueryCounts:
    """Queries (p, 2), an entity and a relation each, sorted, and how many training facts answer
    each, (p,). A fact answers two queries, one in each direction."""

    queries: Facts = field(default_factory=lambda: np.empty((0, 2), dtype=np.int32))
    counts: Counts = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def with_facts(self, facts: Facts) -> QueryCounts:
        """The counts with these facts added."""
        return self._changed(facts, 1)

    def without(self, facts: Facts) -> QueryCounts:
        """The counts with these facts removed; unknown ones are ignored."""
        return self._changed(facts, -1)

    def _changed(self, facts: Facts, sign: int) -> QueryCounts:
        edges = with_inverses(facts)
        queries = np.concatenate([self.queries, edges[:, :2]])
        change = np.concatenate([self.counts, np.full(len(edges), sign, dtype=np.int32)])
        keys = pack(queries[:, 0], queries[:, 1])
        _, first, places = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.zeros(len(first), dtype=np.int32)
        np.add.at(counts, places, change)
        kept = counts > 0
        return QueryCounts(queries[first][kept], counts[kept])

    def draw(self, size: int, generator: np.random.Generator) -> tuple[Facts, Tensor]:
        """`size` queries in proportion to their counts, one from each `size`-th of the total; the
        distinct ones (q, 2), and their shares of the draw, (q,)."""
        ends = np.cumsum(self.counts, dtype=np.float64)
        marks = (np.arange(size) + generator.random(size)) * (ends[-1] / size)
        drawn = np.minimum(np.searchsorted(ends, marks, side="right"), len(ends) - 1)
        distinct, times = np.unique(drawn, return_counts=True)
        return self.queries[distinct], torch.from_numpy(times / size).float()

    def named(self) -> dict[str, Tensor]:
        """For a method's state; `from_named` is the inverse."""
        return {
            "query_counts.queries": torch.from_numpy(self.queries),
            "query_counts.counts": torch.from_numpy(self.counts),
        }

    @classmethod
    def from_named(cls, tensors: Mapping[str, Tensor]) -> QueryCounts:
        """The counts that `named` stored."""
        return cls(tensors["query_counts.queries"].numpy(), tensors["query_counts.counts"].numpy())


def pseudo_queries(
    score: Score,
    tables: Parameters,
    evidence: Parameters,
    size: int,
    config: PseudoQueryConfig,
    generator: np.random.Generator,
) -> QueryCounts:
    """Up to `size` distinct queries, each counted once.

    Entities and relations are proposed by `evidence`, (n, …) and (2m, …), ≥ 0: what the optimizer
    has summed on their rows, which grows with the facts behind them. Of the proposed queries those
    are chosen whose answers p(· | h, r) have low entropy: a query that no fact answers mostly has
    answers all over the graph.
    """
    proposals, power = config.pseudo_query_proposals * size, config.pseudo_query_power
    drawn = [_draw_rows(rows, proposals, power, generator) for rows in evidence]
    proposed = np.unique(np.stack(drawn, axis=1), axis=0).astype(np.int32)
    entropy = entropies(score, tables, proposed)
    weights = np.exp(-config.pseudo_query_sharpness * entropy) + np.finfo(np.float64).tiny
    shares, size = weights / weights.sum(), min(size, len(proposed))
    chosen = np.sort(generator.choice(len(proposed), size, replace=False, p=shares))
    return QueryCounts(proposed[chosen], np.ones(size, dtype=np.int32))


def entropies(score: Score, tables: Parameters, queries: Facts) -> NDArray[np.float64]:
    """H of the answers to queries (q, 2): -Σ_e p(e | h, r) log p(e | h, r), (q,)."""
    entity = score.prepare_entities(tables.entity)
    relation = score.prepare_relations(tables.relation)
    numbers = len(entity) if score.is_bilinear else entity.numel()
    parts = [torch.empty(0)]
    for block in blocks_of(len(queries), numbers, BLOCK):
        heads, between = index(queries[block], tables.device).T
        scores = score.candidates(score.compose(entity[heads], relation[between]), entity)
        parts.append(_entropy(scores))
    return torch.cat(parts).double().numpy()


def _entropy(scores: Tensor) -> Tensor:
    """log Σ exp s - Σ p s, (q,), of scores (q, n), which are overwritten."""
    below = scores.sub_(scores.amax(dim=1, keepdim=True))
    weights = below.exp()
    total = weights.sum(dim=1)
    return (total.log() - torch.bmm(weights[:, None], below[:, :, None]).flatten() / total).cpu()


def _draw_rows(
    evidence: Tensor, size: int, power: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Row numbers ∝ evidence^power, (size,)."""
    weights = evidence.double().flatten(1).sum(1).cpu().numpy() ** power
    total = weights.sum()
    return generator.choice(len(weights), size, p=weights / total if total > 0 else None)
