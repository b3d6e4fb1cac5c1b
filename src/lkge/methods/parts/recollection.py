"""Old questions that nobody has noted down: those that a model is sure to know the answers of.

Entities and relations are proposed by the evidence that the optimizer has gathered on their rows,
which grows with the facts behind them; of the questions so made, those are chosen whose answers
p(· | h, r) have a low entropy H, with probability ∝ exp(-2 H). A question that was never asked
mostly has answers all over the graph.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.backends.torch_softmax import blocks_of
from lkge.data.snapshots import Facts
from lkge.methods.parts.profile import Profile
from lkge.models.parameters import Parameters
from lkge.models.scores import Score

PROPOSALS = 16
"""Questions that are looked at for each that is chosen."""
SHARPNESS = 2.0
POWER = 2 / 3
"""Facts of a row ∝ (its squared gradients, summed up) to this power, about."""
BLOCK = 1 << 21
"""Scores that are looked at together, about: they stay in the cache."""


def recollected(
    score: Score,
    tables: Parameters,
    evidence: Parameters,
    size: int,
    generator: np.random.Generator,
) -> Profile:
    """Up to `size` questions, each once. Evidence is (n, …) and (2m, …), not below zero."""
    drawn = [
        _drawn(rows, PROPOSALS * size, generator) for rows in (evidence.entity, evidence.relation)
    ]
    proposed = np.unique(np.stack(drawn, axis=1), axis=0).astype(np.int32)
    weights = np.exp(-SHARPNESS * entropies(score, tables, proposed)) + np.finfo(np.float64).tiny
    chosen = generator.choice(
        len(proposed), min(size, len(proposed)), replace=False, p=weights / weights.sum()
    )
    return Profile(proposed[np.sort(chosen)], np.ones(len(chosen), dtype=np.int32))


def entropies(score: Score, tables: Parameters, asked: Facts) -> NDArray[np.float64]:
    """H of the answers to questions (q, 2): -Σ_e p(e | h, r) log p(e | h, r), (q,)."""
    rows = torch.from_numpy(asked).long().to(tables.entity.device)
    entity = score.prepare_entities(tables.entity)
    relation = score.prepare_relations(tables.relation)
    numbers = len(entity) if score.is_bilinear else entity.numel()
    parts = [
        _entropy(score.candidates(score.compose(entity[part[:, 0]], relation[part[:, 1]]), entity))
        for part in (rows[block] for block in blocks_of(len(rows), numbers, BLOCK))
    ]
    return torch.cat([torch.empty(0), *parts]).double().numpy()


def _entropy(scores: Tensor) -> Tensor:
    """log Σ exp s - Σ p s, (q,), of scores (q, n), which are used up."""
    below = scores.sub_(scores.amax(dim=1, keepdim=True))
    weights = below.exp()
    total = weights.sum(dim=1)
    return (total.log() - torch.bmm(weights[:, None], below[:, :, None]).flatten() / total).cpu()


def _drawn(evidence: Tensor, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Rows, by the facts that are likely behind them, (size,)."""
    weights = evidence.double().flatten(1).sum(1).cpu().numpy() ** POWER
    total = weights.sum()
    likely = weights / total if total > 0 else None
    return generator.choice(len(weights), size, p=likely)
