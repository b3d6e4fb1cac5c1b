"""Softmax over all candidates by matrix products, a block of queries at a time.

The scores of a block stay in the cache: they are made there, become probabilities there, then
slopes, and are used up by two more products. Nothing of size (queries × candidates) is ever held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from lkge.kernels.scratch import Scratch

BLOCK_BYTES = 8 << 20
"""Scores of a block: as much as a shared cache holds beside the rows it is made of."""
STEP = 16
"""Rows of scores are this many floats apart, or a multiple: a whole line of the cache."""


class Block(NamedTuple):
    """Queries `part`: their probabilities of all candidates, (b, n), to be overwritten as needed,
    and the logarithms of what these were divided by, log Σ exp score, (b,)."""

    part: slice
    probabilities: Tensor
    normalisers: Tensor


def probability_blocks(queries: Tensor, candidates: Tensor, scratch: Scratch) -> Iterator[Block]:
    """softmax(queries @ candidates.T) in blocks; each is valid until the next is asked for.

    Shapes: queries (q, d), candidates (n, d), both float32 on CPU.
    """
    count = len(candidates)
    width = -(-count // STEP) * STEP
    size = max(STEP, BLOCK_BYTES // (4 * width) // STEP * STEP)
    buffer = torch.from_numpy(scratch.take("scores", min(size, len(queries)), width))
    for start in range(0, len(queries), size):
        part = slice(start, min(start + size, len(queries)))
        scores = buffer[: part.stop - start, :count]
        torch.mm(queries[part], candidates.T, out=scores)
        highest = scores.amax(dim=1, keepdim=True)
        sums = scores.sub_(highest).exp_().sum(dim=1, keepdim=True)
        yield Block(part, scores.div_(sums), (highest + sums.log()).squeeze(1))


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
) -> float:
    """The loss weight · Σ_b -Σ_e y_be log p_be, with p = softmax(queries @ candidates.T) and
    y_b = (1 - ε) on the target of b, and ε/n on every candidate.

    The targets (b,) of query q are `bounds[q]` up to `bounds[q + 1]`, both int64: targets that
    share a query share its softmax. The gradient on queries (q, d) is written to `on_queries`, that
    on candidates (n, d) is added to `on_candidates`.
    """
    normalisers, counts = torch.empty(len(queries)), bounds.diff().float()
    for block in probability_blocks(queries, candidates, scratch):
        slopes = _slopes(block, bounds, targets, smoothing)
        normalisers[block.part] = block.normalisers
        torch.mm(slopes, candidates, out=on_queries[block.part])
        on_candidates.addmm_(slopes.T, queries[block.part], alpha=weight)
    on_queries.mul_(weight)
    expected = torch.zeros_like(queries)
    expected.index_add_(0, _numbers(bounds), candidates[targets], alpha=1 - smoothing)
    if smoothing:
        expected += smoothing * counts[:, None] * candidates.mean(dim=0)
    losses = counts * normalisers - (queries * expected).sum(dim=1)
    return weight * float(losses.sum(dtype=torch.float64))


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
    taken = torch.full((int(part[-1] - part[0]),), smoothing - 1)
    slopes.index_put_((_numbers(part), targets[part[0] : part[-1]]), taken, accumulate=True)
    return slopes


def _numbers(bounds: Tensor) -> Tensor:
    """The query of each target, (b,), where query q has `bounds[q]` up to `bounds[q + 1]`."""
    return torch.repeat_interleave(torch.arange(len(bounds) - 1), bounds.diff())
