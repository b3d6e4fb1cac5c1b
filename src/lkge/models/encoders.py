"""How an entity is made of its neighbours: transitions, means, attention; pure.

Neighbours of k entities stand one entity after the other: those of entity j are the items
starts[j] to starts[j + 1], and a segment is the items of one entity.
"""

from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional

EPSILON = 1e-5
"""Keeps the variance of a batch normalisation away from zero."""
CHUNK = 1 << 16
"""Items that attention looks at together, so that they stay in the cache."""


class Moments(NamedTuple):
    """Mean and variance of each coordinate, (d,) both."""

    mean: Tensor
    variance: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Self:
        """The moments of rows (n, d); no row at all has mean 0 and variance 1."""
        if not len(rows):
            return cls(rows.new_zeros(rows.shape[1]), rows.new_ones(rows.shape[1]))
        variance, mean = torch.var_mean(rows, dim=0, correction=0)
        return cls(mean, variance)


def project(rows: Tensor, directions: Tensor) -> Tensor:
    """x - (w·x) w, shape (…, d): what of x is orthogonal to a unit vector w."""
    return rows - (rows * directions).sum(-1, keepdim=True) * directions


def standardise(rows: Tensor, moments: Moments | None, scale: Tensor, shift: Tensor) -> Tensor:
    """scale · (x - mean) / √(variance + ε) + shift, shape (n, d): batch normalisation, with the
    moments of the rows themselves unless others are given. Scale and shift: (d,)."""
    mean, variance = moments or (None, None)
    return torch.batch_norm(
        rows, scale, shift, mean, variance, moments is None, 0.0, EPSILON, False
    )


def ranges(starts: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
    """The items of the given segments (k,), one segment after the other, and their own starts
    (k + 1,)."""
    firsts = starts[segments]
    counts = starts[segments + 1] - firsts
    begins = functional.pad(counts.cumsum(0), (1, 0))
    items = torch.arange(int(begins[-1]), device=starts.device)
    return items + torch.repeat_interleave(firsts - begins[:-1], counts), begins


def segment_of(starts: Tensor) -> Tensor:
    """The segment of each item."""
    numbers = torch.arange(len(starts) - 1, device=starts.device)
    return torch.repeat_interleave(numbers, starts.diff())


def segment_means(rows: Tensor, places: Tensor, starts: Tensor) -> Tensor:
    """The mean of rows[places] in each segment, (k, d); zero where a segment has no item."""
    return functional.embedding_bag(places, rows, starts, mode="mean", include_last_offset=True)


def segment_sums(rows: Tensor, places: Tensor, starts: Tensor, weights: Tensor) -> Tensor:
    """The sum of weights · rows[places] in each segment, (k, d)."""
    return functional.embedding_bag(
        places, rows, starts, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def segment_shares(values: Tensor, segments: Tensor, count: int) -> Tensor:
    """Each value divided by the sum of its segment; zero where that sum is zero. Shape (items,)."""
    totals = values.new_zeros(count).index_add(0, segments, values)
    return values / torch.where(totals == 0, 1, totals)[segments]


def segment_softmax(logits: Tensor, segments: Tensor, count: int) -> Tensor:
    """exp(x) divided by the sum of exp over its segment, (items,)."""
    highest = logits.new_full((count,), -torch.inf)
    highest = highest.scatter_reduce(0, segments, logits.detach(), "amax")
    return segment_shares((logits - highest[segments]).exp(), segments, count)


def additive_attention(
    queries: Tensor, asked: Tensor, keys: Tensor, places: Tensor, vector: Tensor
) -> Tensor:
    """v·tanh(q + k) for q = queries[asked] and k = keys[places], (items,): the logits of additive
    attention. Shapes: queries (·, a), keys (·, a), vector (a,), asked and places (items,)."""
    return torch.cat(
        [
            torch.tanh(functional.embedding(a, queries) + functional.embedding(b, keys)) @ vector
            for a, b in zip(torch.split(asked, CHUNK), torch.split(places, CHUNK), strict=True)
        ]
    )
