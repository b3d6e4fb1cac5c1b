"""Softmax over all entities by matrix products, for bilinear scores on the CPU.

A block of queries is worked on at a time. The scores of a block stay in the cache: they are
computed there, become exponentials there, and are used up by two more products. Nothing of size
(queries × candidates) is ever held.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from lkge.backends.numba.jit import Buffered, Scratch
from lkge.backends.numba.updates import add_distinct, add_scattered, scatter
from lkge.backends.torch_softmax import DistillationLoss, RelationPrediction, SoftmaxLoss
from lkge.data.batches import Batch
from lkge.data.snapshots import Facts
from lkge.models.parameters import Gradient, Parameters
from lkge.models.queries import GroupedQueries
from lkge.models.scores import Bilinear

BLOCK_BYTES = 16 << 20
"""Scores of a block: as much as a shared cache holds beside the rows it is made of."""
STEP = 16
"""Rows of scores are this many floats apart, or a multiple: a whole line of the cache."""


class QueryGradient:
    """Queries (h, r, ·) of facts (q, ≥ 2), whatever their objects, as vectors h·r (q, d), and the
    gradient `on_vectors` (q, d), to be filled in: as f(h, r, t) = ⟨h·r, t⟩, a gradient g on h·r is
    `towards(r, g)` on h and `towards(h, g)` on r."""

    def __init__(
        self, score: Bilinear, tables: Parameters, queries: Facts, scratch: Scratch
    ) -> None:
        rows = torch.from_numpy(queries).long()
        self.score, self.queries = score, queries
        self.head = tables.entity.index_select(0, rows[:, 0])
        self.relation = tables.relation.index_select(0, rows[:, 1])
        self.vectors = score.compose(self.head, self.relation)
        self.on_vectors = scratch.tensor("on queries", *self.vectors.shape)

    def factors(self) -> tuple[Tensor, Tensor]:
        """The gradient on heads and on relations, both (q, d)."""
        towards = self.score.towards
        return towards(self.relation, self.on_vectors), towards(self.head, self.on_vectors)

    def add_gradient(self, gradient: Gradient) -> None:
        """Add the gradient on heads and relations."""
        on_head, on_relation = self.factors()
        add_scattered(gradient.entity, self.queries[:, 0], on_head)
        add_scattered(gradient.relation, self.queries[:, 1], on_relation)


class FusedSoftmax(Buffered, SoftmaxLoss):
    """`SoftmaxLoss` by three matrix products, without a second copy of the scores; facts with the
    same query share one row of scores."""

    score: Bilinear

    def add_over_all(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        grouped, part, sample = GroupedQueries.of(batch.facts), gradient.entity, batch.sample
        candidates, on_candidates, importance = tables.entity, part.values, None
        targets = torch.from_numpy(grouped.targets).long()
        if sample is not None:
            places = torch.from_numpy(sample.entities)
            candidates = tables.entity.index_select(0, places)
            on_candidates = torch.zeros_like(candidates)
            importance = torch.from_numpy(sample.importance)
            targets = torch.searchsorted(places, targets)
        queries = QueryGradient(self.score, tables, grouped.distinct, self._scratch)
        loss = softmax_gradient(
            queries.vectors, candidates, torch.from_numpy(grouped.bounds), targets, self.smoothing,
            1 / len(batch), queries.on_vectors, on_candidates, self._scratch, importance,
        )  # fmt: skip
        if sample is None:
            part.touched.fill_(1)
        else:
            add_distinct(part, sample.entities, on_candidates.numpy())
        queries.add_gradient(gradient)
        return loss

    def add_squares_over_all(self, tables: Parameters, batch: Batch, squares: Parameters) -> None:
        """The head of a fact is a candidate, too: its gradient is the sum of the two."""
        facts = torch.from_numpy(batch.facts).long()
        queries = QueryGradient(self.score, tables, batch.facts, self._scratch)
        at_heads = torch.empty(len(facts), 1)
        for part, slopes in score_blocks(queries.vectors, tables.entity, self._scratch):
            sums, _ = _exponentiate(slopes)
            slopes.div_(sums[:, None]).sub_(self.smoothing / len(tables.entity))
            at_targets = torch.arange(len(slopes)), facts[part, 2]
            slopes.index_put_(at_targets, torch.tensor(self.smoothing - 1), accumulate=True)
            at_heads[part] = slopes.gather(1, facts[part, :1])
            torch.mm(slopes, tables.entity, out=queries.on_vectors[part])
            squares.entity.addmm_(slopes.square_().T, queries.vectors[part].square())
        on_head, on_relation = queries.factors()
        more = (on_head + 2 * (at_heads * queries.vectors)) * on_head
        scatter(squares.entity.numpy(), batch.facts[:, 0], more.numpy())
        scatter(squares.relation.numpy(), batch.facts[:, 1], on_relation.square().numpy())


class FusedRelationPrediction(Buffered, RelationPrediction):
    """`RelationPrediction` by matrix products: f(h, r', t) = ⟨q, r'⟩ with q = `towards(h, t)`, and
    a gradient g on q is `towards(g, t)` on h and h·g on t."""

    score: Bilinear

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        facts = torch.from_numpy(batch.facts).long()
        head, tail = tables.entity[facts[:, 0]], tables.entity[facts[:, 2]]
        queries = self.score.towards(head, tail)
        on_queries = self._scratch.tensor("on queries", *queries.shape)
        loss = softmax_gradient(
            queries, tables.relation, torch.arange(len(batch) + 1), facts[:, 1], 0.0,
            self.weight / len(batch), on_queries, gradient.relation.values, self._scratch,
        )  # fmt: skip
        add_scattered(gradient.entity, batch.facts[:, 0], self.score.towards(on_queries, tail))
        add_scattered(gradient.entity, batch.facts[:, 2], self.score.compose(head, on_queries))
        gradient.relation.touched.fill_(1)
        return loss


class FusedDistillation(Buffered, DistillationLoss):
    """`DistillationLoss` by four matrix products."""

    score: Bilinear

    def add_gradient(
        self, tables: Parameters, queries: Facts, weights: Tensor, gradient: Gradient
    ) -> float:
        own = QueryGradient(self.score, tables, queries, self._scratch)
        teaching = self.queries(torch.from_numpy(queries).long())
        losses, known = torch.empty(len(queries)), len(self.teacher.entity)
        for part, slopes in score_blocks(own.vectors, tables.entity, self._scratch):
            wanted = _scores("wanted", teaching[part], self.teacher.entity, self._scratch)
            wanted_sums, _ = _exponentiate(wanted)
            expected = torch.bmm(slopes[:, None, :known], wanted[:, :, None]).flatten()
            sums, normalisers = _exponentiate(slopes)
            losses[part] = normalisers - expected / wanted_sums
            slopes.mul_((weights[part] / sums)[:, None])
            slopes[:, :known].addcmul_(wanted, (weights[part] / wanted_sums)[:, None], value=-1)
            torch.mm(slopes, tables.entity, out=own.on_vectors[part])
            gradient.entity.values.addmm_(slopes.T, own.vectors[part])
        gradient.entity.touched.fill_(1)
        own.add_gradient(gradient)
        return float((weights * losses).sum(dtype=torch.float64))


def score_blocks(
    queries: Tensor, candidates: Tensor, scratch: Scratch
) -> Iterator[tuple[slice, Tensor]]:
    """queries @ candidates.T in blocks; each is valid until the next is asked for."""
    size = max(STEP, BLOCK_BYTES // (4 * _width(candidates)) // STEP * STEP)
    for start in range(0, len(queries), size):
        part = slice(start, min(start + size, len(queries)))
        yield part, _scores("scores", queries[part], candidates, scratch)


def _scores(name: str, queries: Tensor, candidates: Tensor, scratch: Scratch) -> Tensor:
    """queries @ candidates.T in the buffer of that name."""
    buffer = scratch.tensor(name, len(queries), _width(candidates))
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
    queries: Tensor, candidates: Tensor, bounds: Tensor, targets: Tensor, smoothing: float,
    weight: float, on_queries: Tensor, on_candidates: Tensor, scratch: Scratch,
    importance: Tensor | None = None,
) -> float:  # fmt: skip
    """The loss weight · Σ_b -Σ_e y_be log p_be, with p = softmax(queries @ candidates.T) and
    y_b = (1 - ε) on the target of b, and ε/n on every candidate. Where candidates are a sample, the
    exponential of each is multiplied by its `importance` (n,). The targets (b,) of query q are
    `bounds[q]` up to `bounds[q + 1]`, both int64. The gradient on queries (q, d) is written to
    `on_queries`, that on candidates (n, d) is added to `on_candidates`."""
    loss, counts = 0.0, bounds.diff().float()
    for part, scores in score_blocks(queries, candidates, scratch):
        if importance is not None:
            scores.add_(importance.log())
        among = bounds[part.start : part.stop + 1]
        at_targets = torch.repeat_interleave(among.diff()), targets[among[0] : among[-1]]
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
