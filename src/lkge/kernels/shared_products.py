"""The softmax over a fact and corruptions that it shares, under a bilinear score, by products.

Facts that follow each other, a group of them, have the same K corruptions of their objects. With
the queries h·r of a group as rows of Q (g, d) and the entities put in as rows of X (K, d), it takes
three matrix products:

    scores QXᵀ,  gradient on queries SX,  gradient on entities put in SᵀQ,

S (g, K) the slopes of the loss on the scores. Groups of one size are computed together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.kernels.scratch import Scratch
from lkge.kernels.updates import scatter

Ints = NDArray[np.int32]

BLOCK_BYTES = 4 << 20
"""Rows that are put in to groups computed together: about what the cache of a core holds."""


def shared_softmax(
    queries: Tensor,
    targets: Tensor,
    entity: Tensor,
    put_in: Ints,
    sharing: int,
    adversarial: float,
    smoothing: float,
    on_queries: Tensor,
    on_targets: Tensor,
    on_entity: Tensor,
    scratch: Scratch,
) -> float:
    """The mean over facts of `lkge.models.losses.sampled_softmax_loss`. Its gradient on queries and
    on targets is written to `on_queries` and `on_targets`, that on entities put in is added to
    `on_entity`.

    Shapes: queries, targets and their gradients (B, d), entity and its gradient (n, d). A group is
    `sharing` facts, the last one what remains; those put in to each group are `put_in` (⌈B/g⌉, K).
    """
    negatives, dim = put_in.shape[1], entity.shape[1]
    losses = torch.empty(len(queries))
    for groups, facts in _blocks(len(queries), sharing, BLOCK_BYTES // (4 * negatives * dim)):
        drawn = put_in[groups].reshape(-1)
        rows = _rows(entity, drawn, scratch).view(-1, negatives, dim)
        asked = queries[facts].view(len(rows), -1, dim)
        buffer = scratch.take("shared scores", *asked.shape[:2], negatives)
        scores = torch.bmm(asked, rows.mT, out=torch.from_numpy(buffer))
        own = (queries[facts] * targets[facts]).sum(dim=1)
        losses[facts], on_own = _differentiate(
            own, scores.view(-1, negatives), adversarial, smoothing, 1 / len(queries)
        )
        torch.bmm(scores, rows, out=on_queries[facts].view_as(asked))
        on_queries[facts].addcmul_(on_own[:, None], targets[facts])
        torch.mul(on_own[:, None], queries[facts], out=on_targets[facts])
        on_rows = torch.bmm(scores.mT, asked, out=rows).view(-1, dim)
        scatter(on_entity.numpy(), drawn, on_rows.numpy())
    return float(losses.mean(dtype=torch.float64))


def _blocks(facts: int, sharing: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Groups of one size, `most` of them at a time or a single one, and their facts."""
    whole, most = facts // sharing, max(1, most)
    for start in range(0, whole, most):
        stop = min(start + most, whole)
        yield slice(start, stop), slice(start * sharing, stop * sharing)
    if whole * sharing < facts:
        yield slice(whole, whole + 1), slice(whole * sharing, facts)


def _rows(entity: Tensor, drawn: Ints, scratch: Scratch) -> Tensor:
    """entity[drawn], in a buffer."""
    buffer = torch.from_numpy(scratch.take("shared rows", len(drawn), entity.shape[1]))
    return torch.index_select(entity, 0, torch.from_numpy(drawn), out=buffer)


def _differentiate(
    own: Tensor, scores: Tensor, adversarial: float, smoothing: float, weight: float
) -> tuple[Tensor, Tensor]:
    """The losses (b,) of facts with scores `own` (b,), among corruptions with `scores` (b, K), and
    `weight` times their slopes on `own`; those on `scores` take the place of these."""
    candidates = 1 + scores.shape[1]
    if adversarial:
        _weigh(scores, adversarial)
    expected = (1 - smoothing) * own
    if smoothing:
        expected += smoothing / candidates * (own + scores.sum(dim=1))
    highest = torch.maximum(own, scores.amax(dim=1))
    risen = (own - highest).exp_()
    sums = risen + scores.sub_(highest[:, None]).exp_().sum(dim=1)
    scores.mul_((weight / sums)[:, None])
    if smoothing:
        scores.sub_(weight * smoothing / candidates)
    slopes = risen / sums - (1 - smoothing) - smoothing / candidates
    return highest + sums.log() - expected, weight * slopes


def _weigh(scores: Tensor, adversarial: float) -> None:
    """f_k becomes f_k + log (K softmax_k(τ f_k)), in place."""
    weights = torch.log_softmax(adversarial * scores, dim=1)
    scores.add_(weights).add_(math.log(scores.shape[1]))
