"""The softmax over a fact and its negatives under a bilinear score, and its gradient, in kernels.

The score of a triple is the inner product of either end with a centre that the other two make:

    f(h, r, t) = ⟨h·r, t⟩ = ⟨h, ∂f/∂h⟩,

so that a fact has two centres, and every negative is scored by the entity put in and one of them.

Where a group of facts shares its K negatives, all of objects, the queries h·r of the group are the
rows of Q (g, d) and the entities put in the rows of X (K, d), and it takes three matrix products:

    scores QXᵀ,  gradient on queries SX,  gradient on entities put in SᵀQ,

S (g, K) the gradient of the loss on the scores. Groups of one size are computed together.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from numba import prange
from torch import Tensor

from lkge.backends.numba.distance import add_scaled, dot
from lkge.backends.numba.jit import Buffered, parallel, serial
from lkge.backends.numba.softmax import QueryGradient
from lkge.backends.numba.updates import add_scattered, grouped
from lkge.backends.torch_losses import SampledSoftmaxLoss
from lkge.data.array_types import Bytes, Floats, Ints
from lkge.data.batches import Batch
from lkge.models.losses import log_weights
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import Bilinear

BLOCK_BYTES = 4 << 20
"""Rows that are put in to groups computed together: about what the cache of a core holds."""


class FusedSampledSoftmax(Buffered, SampledSoftmaxLoss):
    """`SampledSoftmaxLoss` of a bilinear score on the CPU."""

    score: Bilinear

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        add = self._add_own if batch.shared_by == 1 else self._add_shared
        return add(tables, batch, gradient)

    def _add_own(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """`add_gradient` where every fact has corruptions of its own, on either side."""
        facts = torch.from_numpy(batch.facts).long()
        head, tail = tables.entity[facts[:, 0]], tables.entity[facts[:, 2]]
        relation = tables.relation[facts[:, 1]]
        heads, tails = self.score.towards(relation, tail), self.score.compose(head, relation)
        centres = torch.cat([heads, tails])
        put_in, which = _scored(batch)
        slopes, on_centres = torch.empty(put_in.shape), torch.zeros_like(centres)
        loss = sampled_softmax(
            tables.entity.numpy(), centres.numpy(), put_in, which, self.adversarial,
            self.smoothing, slopes.numpy(), on_centres.numpy(),
        )  # fmt: skip
        add_to_entities(
            centres.numpy(), put_in, which, slopes.numpy(), gradient.entity.values.numpy(),
            gradient.entity.touched.numpy(),
        )  # fmt: skip
        for_head, for_tail = on_centres.chunk(2)
        on_relation = self.score.towards(head, for_tail) + self.score.towards(for_head, tail)
        add_scattered(gradient.entity, batch.facts[:, 0], self.score.towards(relation, for_tail))
        add_scattered(gradient.entity, batch.facts[:, 2], self.score.compose(for_head, relation))
        add_scattered(gradient.relation, batch.facts[:, 1], on_relation)
        return loss

    def _add_shared(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """`add_gradient` where facts share corruptions of their objects."""
        size, sharing, dim = len(batch), batch.shared_by, tables.entity.shape[1]
        queries = QueryGradient(self.score, tables, batch.facts, self._scratch)
        targets = tables.entity[torch.from_numpy(batch.facts[:, 2]).long()]
        put_in = np.ascontiguousarray(batch.corruptions[::sharing])
        negatives = put_in.shape[1]
        on_targets, losses = self._scratch.tensor("on targets", *targets.shape), torch.empty(size)
        for groups, facts in _blocks(size, sharing, BLOCK_BYTES // (4 * negatives * dim)):
            drawn = put_in[groups].reshape(-1)
            rows = self._scratch.tensor("shared rows", len(drawn), dim)
            torch.index_select(tables.entity, 0, torch.from_numpy(drawn), out=rows)
            rows = rows.view(-1, negatives, dim)
            asked = queries.vectors[facts].view(len(rows), -1, dim)
            buffer = self._scratch.tensor("shared scores", *asked.shape[:2], negatives)
            scores = torch.bmm(asked, rows.mT, out=buffer)
            own = (queries.vectors[facts] * targets[facts]).sum(dim=1)
            losses[facts], on_own = self._differentiate(own, scores.view(-1, negatives), 1 / size)
            torch.bmm(scores, rows, out=queries.on_vectors[facts].view_as(asked))
            queries.on_vectors[facts].addcmul_(on_own[:, None], targets[facts])
            torch.mul(on_own[:, None], queries.vectors[facts], out=on_targets[facts])
            on_rows = torch.bmm(scores.mT, asked, out=rows).view(-1, dim)
            add_scattered(gradient.entity, drawn, on_rows)
        queries.add_gradient(gradient)
        add_scattered(gradient.entity, batch.facts[:, 2], on_targets)
        return float(losses.mean(dtype=torch.float64))

    def _differentiate(self, own: Tensor, scores: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        """The losses (b,) of facts with scores `own` (b,), among corruptions with `scores` (b, K),
        and `weight` times their slopes on `own`; those on `scores` take the place of these."""
        candidates, smoothing = 1 + scores.shape[1], self.smoothing
        if self.adversarial:
            scores.add_(log_weights(scores, self.adversarial)).add_(math.log(scores.shape[1]))
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


def _scored(batch: Batch) -> tuple[Ints, Ints]:
    """The entities that are scored, (B, 1 + K), each fact's object first, and the centre of each:
    those that expect a head first, then those that expect a tail, (2B,)."""
    put_in = np.concatenate([batch.facts[:, 2:], batch.corruptions], axis=1)
    of_tails = np.concatenate([np.ones_like(put_in[:, :1]), batch.corrupt_object], axis=1)
    which = np.arange(len(batch), dtype=np.int32)[:, None] + len(batch) * of_tails
    return put_in, which.astype(np.int32)


@parallel
def sampled_softmax(
    entity: Floats, centres: Floats, put_in: Ints, which: Ints, adversarial: float,
    smoothing: float, slopes: Floats, on_centres: Floats,
) -> float:  # fmt: skip
    """The mean over facts of `lkge.models.losses.sampled_softmax_loss`. Its slopes on the scores
    are written to `slopes` (B, 1 + K), its gradient on centres is added to `on_centres` (c, d).
    Shapes: entity (n, d), centres (c, d); `put_in` and `which` are as `_scored` gives them. No two
    facts share a centre."""
    facts, scored = put_in.shape
    losses = np.empty(facts, dtype=np.float64)
    for b in prange(facts):
        logits = slopes[b]
        for k in range(scored):
            logits[k] = dot(entity, put_in[b, k], centres, which[b, k])
        if adversarial:
            _weigh(logits[1:], adversarial)
        highest, mean = logits.max(), logits.mean()
        own, total = logits[0], np.float32(0)
        for k in range(scored):
            logits[k] = np.exp(logits[k] - highest)
            total += logits[k]
        losses[b] = highest + np.log(total) - (1 - smoothing) * own - smoothing * mean
        for k in range(scored):
            logits[k] = (logits[k] / total - np.float32(smoothing / scored)) / np.float32(facts)
        logits[0] -= np.float32((1 - smoothing) / facts)
        for k in range(scored):
            add_scaled(on_centres, which[b, k], slopes[b, k], entity, put_in[b, k])
    return float(losses.mean())


@serial
def _weigh(negatives: Floats, adversarial: float) -> None:
    """f_k becomes f_k + log (K softmax_k(τ f_k)), in place."""
    tau = np.float32(adversarial)
    highest = negatives.max()
    total = np.float32(0)
    for score in negatives:
        total += np.exp(tau * (score - highest))
    shift = np.float32(np.log(len(negatives))) - tau * highest - np.log(total)
    for k in range(len(negatives)):
        negatives[k] += tau * negatives[k] + shift


@parallel
def add_to_entities(
    centres: Floats, put_in: Ints, which: Ints, slopes: Floats, on_entity: Floats,
    touched: Bytes,
) -> None:  # fmt: skip
    """Add Σ slope · centre to the gradient on each entity put in, (n, d), and mark it touched. The
    facts are taken entity by entity, so that threads never meet."""
    starts, order = grouped(put_in.reshape(-1), len(on_entity))
    centre_of, slope_of = which.reshape(-1), slopes.reshape(-1)
    for e in prange(len(on_entity)):
        for place in range(starts[e], starts[e + 1]):
            touched[e] = 1
            scored = order[place]
            add_scaled(on_entity, e, slope_of[scored], centres, centre_of[scored])


def _blocks(facts: int, sharing: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Groups of one size, `most` of them at a time or a single one, and their facts."""
    whole, most = facts // sharing, max(1, most)
    for start in range(0, whole, most):
        stop = min(start + most, whole)
        yield slice(start, stop), slice(start * sharing, stop * sharing)
    if whole * sharing < facts:
        yield slice(whole, whole + 1), slice(whole * sharing, facts)
