"""Softmax over all candidates by matrix products, a block of queries at a time.

The scores of a block stay in the cache: they are made there, become exponentials there, and are
used up by two more products. Nothing of size (queries × candidates) is ever held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lkge.kernels.scratch import Scratch

BLOCK_BYTES = 16 << 20
"""Scores of a block: as much as a shared cache holds beside the rows it is made of."""
STEP = 16
"""Rows of scores are this many floats apart, or a multiple: a whole line of the cache."""


class Block(NamedTuple):
    """Queries `part`: their probabilities of all candidates, (b, n), to be overwritten as
    needed."""

    part: slice
    probabilities: Tensor


def probability_blocks(queries: Tensor, candidates: Tensor, scratch: Scratch) -> Iterator[Block]:
    """softmax(queries @ candidates.T) in blocks; each is valid until the next is asked for.

    Shapes: queries (q, d), candidates (n, d), both float32 on CPU.
    """
    for part, scores in _score_blocks(queries, candidates, scratch):
        sums, _ = _exponentiate(scores)
        yield Block(part, scores.div_(sums[:, None]))


def _score_blocks(
    queries: Tensor, candidates: Tensor, scratch: Scratch
) -> Iterator[tuple[slice, Tensor]]:
    """queries @ candidates.T in blocks."""
    size = max(STEP, BLOCK_BYTES // (4 * _width(candidates)) // STEP * STEP)
    for start in range(0, len(queries), size):
        part = slice(start, min(start + size, len(queries)))
        yield part, _scores("scores", queries[part], candidates, scratch)


def _scores(name: str, queries: Tensor, candidates: Tensor, scratch: Scratch) -> Tensor:
    """queries @ candidates.T in the buffer of that name."""
    buffer = torch.from_numpy(scratch.take(name, len(queries), _width(candidates)))
    return torch.mm(queries, candidates.T, out=buffer[:, : len(candidates)])


def _width(candidates: Tensor) -> int:
    return -(-len(candidates) // STEP) * STEP


def _exponentiate(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Scores (b, n) become the exponentials of what they are below the highest; the sums of these,
    and log Σ exp score, both (b,)."""
    highest = scores.amax(dim=1, keepdim=True)
    sums = scores.sub_(highest).exp_().sum(dim=1)
    return sums, highest.squeeze(1) + sums.log()


def softmax_gradient(
    queries: Tensor,
    candidates: Tensor,
    bounds: Tensor,
    targets: Tensor,
    smoothing: float,
    weight: float,
    on_queries: Tensor,
    on_candidates: Tensor,
    scratch: Scratch,
    importance: Tensor | None = None,
) -> float:
    """The loss weight · Σ_b -Σ_e y_be log p_be, with p = softmax(queries @ candidates.T) and
    y_b = (1 - ε) on the target of b, and ε/n on every candidate. Where candidates stand for others,
    for `importance` (n,) each, the exponentials count as often; targets stand for themselves.

    The targets (b,) of query q are `bounds[q]` up to `bounds[q + 1]`, both int64: targets that
    share a query share its softmax. The gradient on queries (q, d) is written to `on_queries`, that
    on candidates (n, d) is added to `on_candidates`.
    """
    loss, counts = 0.0, bounds.diff().float()
    for part, scores in _score_blocks(queries, candidates, scratch):
        if importance is not None:
            scores.add_(importance.log())
        at_targets = _at_targets(part, bounds, targets)
        of_targets = scores[at_targets].sum(dtype=torch.float64)
        sums, normalisers = _exponentiate(scores)
        loss += float(counts[part].double() @ normalisers.double() - (1 - smoothing) * of_targets)
        scales = counts[part] / sums
        taken = (smoothing - 1) / scales.index_select(0, at_targets[0])
        scores.index_put_(at_targets, taken, accumulate=True)
        torch.mm(scores, candidates, out=on_queries[part]).mul_((weight * scales)[:, None])
        on_candidates.addmm_(scores.T, scales[:, None] * queries[part], alpha=weight)
    if smoothing:
        asked, mean = counts @ queries, candidates.mean(dim=0)
        on_queries.sub_(counts[:, None] * mean, alpha=weight * smoothing)
        on_candidates.sub_(asked, alpha=weight * smoothing / len(candidates))
        loss -= smoothing * float(asked @ mean)
        if importance is not None:
            loss -= smoothing * float(importance.log().mean() * counts.sum())
    return weight * loss


def distil_gradient(
    queries: Tensor,
    candidates: Tensor,
    taught_queries: Tensor,
    taught_candidates: Tensor,
    weights: Tensor,
    on_queries: Tensor,
    on_candidates: Tensor,
    scratch: Scratch,
) -> float:
    """The loss Σ_q w_q · -Σ_e y_qe log p_qe, with p = softmax(queries @ candidates.T) and
    y = softmax(taught_queries @ taught_candidates.T), zero on candidates that had not come yet.

    Shapes: both queries (q, d), candidates (n, d), taught candidates (k ≤ n, d), weights (q,). The
    gradient on queries is written to `on_queries`, that on candidates added to `on_candidates`.
    """
    losses, taught = torch.empty(len(queries)), len(taught_candidates)
    for part, scores in _score_blocks(queries, candidates, scratch):
        wanted = _scores("wanted", taught_queries[part], taught_candidates, scratch)
        wanted_sums, _ = _exponentiate(wanted)
        expected = torch.bmm(scores[:, None, :taught], wanted[:, :, None]).flatten()
        sums, normalisers = _exponentiate(scores)
        losses[part] = normalisers - expected / wanted_sums
        slopes = scores.mul_((weights[part] / sums)[:, None])
        slopes[:, :taught].addcmul_(wanted, (weights[part] / wanted_sums)[:, None], value=-1)
        torch.mm(slopes, candidates, out=on_queries[part])
        on_candidates.addmm_(slopes.T, queries[part])
    return float((weights * losses).sum(dtype=torch.float64))


def softmax_squares(
    queries: Tensor,
    candidates: Tensor,
    targets: Tensor,
    smoothing: float,
    heads: Tensor,
    on_queries: Tensor,
    squares: Tensor,
    scratch: Scratch,
) -> Tensor:
    """Add the squared slopes of each query's loss alone to `squares` (n, d), those that candidates
    have as candidates; write each loss's gradient on its query to `on_queries` (q, d). Every query
    has one target.

    Returns the slopes that the candidates `heads` (q,) have, each in the loss of its query, (q, d).
    """
    at_heads, bounds = torch.empty(len(queries), 1), torch.arange(len(queries) + 1)
    for block in probability_blocks(queries, candidates, scratch):
        slopes = _slopes(block, bounds, targets, smoothing)
        at_heads[block.part] = slopes.gather(1, heads[block.part, None])
        torch.mm(slopes, candidates, out=on_queries[block.part])
        squares.addmm_(slopes.square_().T, queries[block.part].square())
    return at_heads * queries


def _slopes(block: Block, bounds: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """∂loss/∂score = Σ_b (p - y_b), b the targets of each query, in place of the probabilities."""
    slopes, part = block.probabilities, bounds[block.part.start : block.part.stop + 1]
    slopes.sub_(smoothing / slopes.shape[1]).mul_(part.diff()[:, None])
    at_targets = _at_targets(block.part, bounds, targets)
    slopes.index_put_(at_targets, torch.tensor(smoothing - 1), accumulate=True)
    return slopes


def _at_targets(part: slice, bounds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Where the targets of queries are in their block of scores, (b,) both: query q has those from
    `bounds[q]` up to `bounds[q + 1]`."""
    among = bounds[part.start : part.stop + 1].numpy()
    rows = np.repeat(np.arange(len(among) - 1), np.diff(among))
    return torch.from_numpy(rows), targets[among[0] : among[-1]]
