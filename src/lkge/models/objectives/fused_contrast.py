"""Losses that compare a fact with its own corruptions, in kernels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lkge.data.batches import Batch
from lkge.kernels.contrast import L1, L2, MODULI, add_contrast_flows, contrast_distances
from lkge.kernels.rows import RowGradient
from lkge.kernels.sampled_products import add_to_entities, sampled_softmax
from lkge.kernels.scratch import Scratch
from lkge.kernels.shared_products import shared_softmax
from lkge.kernels.updates import scatter
from lkge.models.objectives.base import FactwiseObjective, as_tensors
from lkge.models.objectives.contrast import Contrast, SampledSoftmax
from lkge.models.objectives.softmax import Pose
from lkge.models.scores import Bilinear, RotatE, TransE, TransEL2
from lkge.models.tables import Gradient, Tables

Ints = NDArray[np.int32]

KINDS: Mapping[str, int] = MappingProxyType(
    {TransE.name: L1, TransEL2.name: L2, RotatE.name: MODULI}
)
"""Scores that are distances, kept by what a relation does to both ends."""


class ContrastOfDistances:
    """A `Contrast` on CPU where the score is a distance: torch differentiates the loss of the
    scores and the few rows that they come from, kernels the scores."""

    def __init__(self, plain: Contrast) -> None:
        self.plain = plain
        self._kind = KINDS[plain.score.name]

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        facts, corruptions, corrupt_object = as_tensors(batch, tables.entity.device)
        entities, places = torch.unique(
            torch.cat([facts[:, (0, 2)], corruptions], dim=1), return_inverse=True
        )
        relations, used = torch.unique(facts[:, 1], return_inverse=True)
        rows = [
            tables.entity[entities].requires_grad_(),
            tables.relation[relations].requires_grad_(),
        ]
        score = self.plain.score
        entity, relation = score.prepare_entities(rows[0]), score.prepare_relations(rows[1])
        between = relation[used]
        centres = torch.cat(
            [
                score.decompose(between, entity[places[:, 1]]),
                score.compose(entity[places[:, 0]], between),
            ]
        )
        forward = torch.cat([torch.ones_like(facts[:, :1]), corrupt_object.long()], dim=1)
        which = torch.arange(len(facts))[:, None] + len(facts) * forward
        compared = (
            self._kind, entity.detach().numpy(), centres.detach().numpy(),
            places[:, 1:].contiguous().numpy(), which.numpy(),
        )  # fmt: skip
        distances = contrast_distances(*compared)
        scores = (-torch.from_numpy(distances)).requires_grad_()
        loss = self.plain.loss(scores[:, 0], scores[:, 1:])
        (slopes,) = torch.autograd.grad(loss, scores)
        flows = [torch.zeros_like(entity), torch.zeros_like(centres)]
        add_contrast_flows(*compared, distances, (-slopes).numpy(), *(f.numpy() for f in flows))
        on_entities, on_relations = torch.autograd.grad([entity, centres], rows, flows)
        gradient.entity.add(entities, on_entities)
        gradient.relation.add(relations, on_relations)
        return float(loss.detach())

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        self.plain.add_squares(tables, batch, squares)


class SoftmaxOfProducts:
    """`SampledSoftmax` on CPU where the score is bilinear. Rows are read where they are, and their
    gradient goes where it belongs at once; facts that share their corruptions are three matrix
    products a group."""

    def __init__(self, plain: SampledSoftmax, score: Bilinear) -> None:
        self.plain = plain
        self.score = score
        self._scratch = Scratch()

    def add_gradient(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """See `Objective`."""
        add = self._add_apart if batch.shared_by == 1 else self._add_shared
        return add(tables, batch, gradient)

    def add_squares(self, tables: Tables, batch: Batch, squares: Tables) -> None:
        """See `FactwiseObjective`."""
        self.plain.add_squares(tables, batch, squares)

    def _add_apart(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """`add_gradient` where every fact has corruptions of its own, on either side."""
        facts = torch.from_numpy(batch.facts).long()
        head, tail = tables.entity[facts[:, 0]], tables.entity[facts[:, 2]]
        relation = tables.relation[facts[:, 1]]
        centres = torch.cat(
            [self.score.towards(relation, tail), self.score.compose(head, relation)]
        )
        put_in, which = _scored(batch)
        slopes, on_centres = torch.empty(put_in.shape), torch.zeros_like(centres)
        loss = sampled_softmax(
            tables.entity.numpy(), centres.numpy(), put_in, which, self.plain.adversarial,
            self.plain.smoothing, slopes.numpy(), on_centres.numpy(),
        )  # fmt: skip
        add_to_entities(
            centres.numpy(), put_in, which, slopes.numpy(), gradient.entity.values.numpy(),
            gradient.entity.touched.numpy(),
        )  # fmt: skip
        for_head, for_tail = on_centres.chunk(2)
        on_relation = self.score.towards(head, for_tail) + self.score.towards(for_head, tail)
        _scatter(gradient.entity, batch.facts[:, 0], self.score.towards(relation, for_tail))
        _scatter(gradient.entity, batch.facts[:, 2], self.score.compose(for_head, relation))
        _scatter(gradient.relation, batch.facts[:, 1], on_relation)
        return loss

    def _add_shared(self, tables: Tables, batch: Batch, gradient: Gradient) -> float:
        """`add_gradient` where facts share corruptions of their objects."""
        pose = Pose.of(self.score, tables, batch.facts, self._scratch)
        targets = tables.entity[torch.from_numpy(batch.facts[:, 2]).long()]
        put_in = np.ascontiguousarray(batch.corruptions[:: batch.shared_by])
        on_targets = torch.from_numpy(self._scratch.take("on targets", *targets.shape))
        loss = shared_softmax(
            pose.queries, targets, tables.entity, put_in, batch.shared_by, self.plain.adversarial,
            self.plain.smoothing, pose.on_queries, on_targets, gradient.entity.values,
            self._scratch,
        )  # fmt: skip
        gradient.entity.touched[torch.from_numpy(put_in).long().flatten()] = 1
        on_head, on_relation = pose.slopes()
        _scatter(gradient.entity, batch.facts[:, 0], on_head)
        _scatter(gradient.entity, batch.facts[:, 2], on_targets)
        _scatter(gradient.relation, batch.facts[:, 1], on_relation)
        return loss


def _scored(batch: Batch) -> tuple[Ints, Ints]:
    """The entities that are scored, (B, 1 + K), each fact's object first, and the centre of each:
    those that expect a head first, then those that expect a tail, (2B,)."""
    put_in = np.concatenate([batch.facts[:, 2:], batch.corruptions], axis=1)
    of_tails = np.concatenate([np.ones_like(put_in[:, :1]), batch.corrupt_object], axis=1)
    which = np.arange(len(batch), dtype=np.int32)[:, None] + len(batch) * of_tails
    return put_in, which.astype(np.int32)


def _scatter(part: RowGradient, rows: Ints, values: Tensor) -> None:
    """Add to rows that may repeat."""
    scatter(part.values.numpy(), rows, values.numpy())
    part.touched[torch.from_numpy(rows).long()] = 1


def contrast(plain: Contrast, fused: bool) -> FactwiseObjective:
    """Kernels where they are wanted and serve loss and score, otherwise the plain twin."""
    if fused and isinstance(plain, SampledSoftmax) and isinstance(plain.score, Bilinear):
        return SoftmaxOfProducts(plain, plain.score)
    return ContrastOfDistances(plain) if fused and plain.score.name in KINDS else plain
