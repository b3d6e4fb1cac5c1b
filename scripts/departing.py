"""Systems with a departure of the paper's published code in them; `departures.py` runs them.

What is known of that code is a line each, not the code itself: how a departure is made here is our
reading of that line.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor
from torch.nn import functional

from lkge.data.snapshots import Facts, Snapshot
from lkge.kernels import attention_items as kernel
from lkge.kernels.attention import keys_of
from lkge.kernels.scratch import Scratch
from lkge.methods import register
from lkge.methods.ewc import Ewc
from lkge.methods.lan import Lan
from lkge.methods.lkge import Lkge
from lkge.methods.mean import SCALE, SHIFT, Mean
from lkge.methods.parts.attention import (
    FROM_NEIGHBOUR,
    FROM_QUERY,
    QUERY,
    VECTOR,
    Attends,
    Attention,
    Logic,
)
from lkge.methods.parts.autoencoder import Autoencoder
from lkge.methods.parts.fused_attention import FusedAttention
from lkge.methods.parts.inductive import TRANSITION, or_own
from lkge.methods.parts.neighbours import Neighbourhoods, Pairs
from lkge.methods.retrain import Retrain
from lkge.methods.si import Si, importance
from lkge.models.encoders import Moments, segment_means, standardise
from lkge.models.model import Model, uses_kernels
from lkge.models.scores import Score
from lkge.models.tables import Gradient, Tables, no_tables


@register
class RetrainOnNewest(Retrain):
    """Re-train that selects its best epoch on V_i instead of V_1 ∪ … ∪ V_i."""

    name: ClassVar[str] = "re-train-on-newest"

    def validation(self, snapshot: Snapshot) -> Facts:
        """V_i."""
        return snapshot.valid


@register
class SiByValues(Si):
    """SI whose relations are held by their values, not by what their paths gained."""

    name: ClassVar[str] = "si-by-values"

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Ω += max(0, θ_end) / ((θ_end - θ_start)² + ξ) on relations."""
        self._path.relation = model.tables.relation.clone()
        super().end(model, snapshot)


@register
class SiByValueSteps(Si):
    """SI whose paths of relations sum the values, not the gradients, times the steps."""

    name: ClassVar[str] = "si-by-value-steps"

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """As always; then θ before the step stands for g of the touched relations, so that
        `after_step` has ω -= θ·Δθ."""
        loss = super().penalty(model, gradient)
        entity, relation = self._moments
        self._moments = [entity, relation._replace(slopes=relation.values)]
        return loss


@register
class SiBySignedValueSteps(SiByValueSteps):
    """The same without max(0, ·) on relations: a coordinate may be driven from where it was."""

    name: ClassVar[str] = "si-by-signed-value-steps"

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Ω += ω / ((θ_end - θ_start)² + ξ) on relations."""
        super().end(model, snapshot)
        ways = -self._path.relation, model.tables.relation, self._start.relation
        self._importance.relation -= importance(*ways, self.damping)


@register
class SiDamped(Si):
    """SI with ξ = 0.1, a value in wide use: what hardly moved is then hardly held."""

    name: ClassVar[str] = "si-damped"
    damping: ClassVar[float] = 0.1


@register
class SiDampedBySignedValueSteps(SiBySignedValueSteps):
    """Both: ξ = 0.1, and signed values for the gradients of relations."""

    name: ClassVar[str] = "si-damped-by-signed-value-steps"
    damping: ClassVar[float] = SiDamped.damping


@register
class EwcBySlip(Ewc):
    """EWC whose mean over snapshots lacks its brackets. That is our reading: of the slip we know
    that it is one of precedence, in the averaging over snapshots. With its brackets the mean is
    (F_{i-1}·(i - 1) + F_new) / i; EWC itself has the sum of all F_new here."""

    name: ClassVar[str] = "ewc-by-slip"

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """F_i = F_{i-1}·(i - 1) + F_new / i, i from 1 on."""
        old, self._fisher = self._fisher, no_tables(self.settings.dim, self.settings.device)
        super().end(model, snapshot)
        i, new = snapshot.index + 1, self._fisher
        old = old.grown_to(new.map(torch.zeros_like))
        self._fisher = old.map(lambda before, now: before * (i - 1) + now / i, new)


class FromNewFacts(Autoencoder):
    """The masked autoencoder as it is without x_{i-1}: a row is rebuilt from new facts alone, from
    none as zero, and rebuilt entities have no negative coordinate. For translations.

    ē = ReLU(mean of o - r over N(e)),    r̄ = mean of o - s over N(r)
    """

    def __init__(self, model: Model, facts: Facts, past: Tables, weight: Tables) -> None:
        nothing = past.map(torch.zeros_like)
        super().__init__(model.score, facts, model.tables, nothing, weight, fused=False)
        subjects, relations, objects = self._edges.T
        entities, all_relations = (len(counts) for counts in past)
        self._members = past.map(lambda counts: torch.arange(len(counts)))
        self._objects_of_entity = means(subjects, objects, entities, entities)
        self._relations_of_entity = means(subjects, relations, entities, all_relations)
        self._objects_of_relation = means(relations, objects, all_relations, entities)
        self._subjects_of_relation = means(relations, subjects, all_relations, entities)

    def reconstruct(self, tables: Tables) -> Tables:
        """See `Autoencoder`."""
        return Tables(
            (
                self._objects_of_entity @ tables.entity
                - self._relations_of_entity @ tables.relation
            ).relu(),
            (self._objects_of_relation - self._subjects_of_relation) @ tables.entity,
        )


def means(of: Tensor, over: Tensor, rows: int, columns: int) -> Tensor:
    """The sparse matrix (rows, columns) that takes the mean of the items `over` of each `of`."""
    shares = 1 / torch.bincount(of, minlength=rows)[of].float()
    return torch.sparse_coo_tensor(
        torch.stack([of, over]), shares, (rows, columns), check_invariants=True
    ).coalesce()


@register
class LkgeFromNewFacts(Lkge):
    """LKGE whose autoencoder never looks at what a row was."""

    name: ClassVar[str] = "lkge-from-new-facts"

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """As always, with that autoencoder."""
        super().begin(model, snapshot)
        if (plain := self._autoencoder) is not None:
            self._autoencoder = FromNewFacts(model, snapshot.train, plain.past, plain.weight)

    def _pull(self, past: Tensor, new: Tensor, share: Tensor) -> Tensor:
        """See `Lkge`: α·ω(x) alone."""
        return super()._pull(past, new, torch.zeros_like(share))


class Apart(Neighbourhoods):
    """Neighbourhoods that share no pair: what a neighbour is moved to depends on whose it is."""

    @classmethod
    def of_each(cls, near: Neighbourhoods) -> Self:
        """The same neighbours."""
        return cls(near.starts, near.relations, near.others)

    @cached_property
    def pairs(self) -> Pairs:
        """Every neighbour is a pair of its own."""
        places = torch.arange(len(self.others), device=self.others.device)
        return Pairs(self.relations, self.others, places)


def moved_together(score: Score, tables: Tables, near: Apart) -> Tensor:
    """x̂_k - s ∘ ŵ_k for each neighbour k of each entity, (items, d), where s = Σ_k x̂_k ∘ ŵ_k over
    the neighbours of that entity, coordinate by coordinate; x̂ and ŵ as in `transitions`."""
    directions = functional.normalize(tables.extra[TRANSITION], dim=-1)
    x = functional.embedding(near.others, score.prepare_entities(tables.entity))
    w = functional.embedding(near.relations, directions)
    sums = functional.embedding_bag(
        near.pairs.places, x * w, near.starts, mode="sum", include_last_offset=True
    )
    return x - functional.embedding(near.subjects, sums) * w


@register
class MeanOverNeighbours(Mean):
    """MEAN whose projection sums over neighbours instead of coordinates. Batch normalisation takes
    its moments from all neighbours, as no two of them are one."""

    name: ClassVar[str] = "mean-over-neighbours"

    def encode(self, score: Score, tables: Tables, entities: Tensor, queries: Tensor) -> Tensor:
        """See `Mean`."""
        near = Apart.of_each(self.near.of(entities))
        scale, shift = tables.extra[SCALE][0], tables.extra[SHIFT][0]
        moved = moved_together(score, tables, near)
        said = standardise(moved, self._moments, scale, shift).relu()
        rows = segment_means(said, near.pairs.places, near.starts)
        return or_own(rows, near.counts, tables.entity, entities)

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """See `Mean`."""
        if snapshot.index == 0:
            near = Apart.of_each(self.near)
            self._moments = Moments.of(moved_together(model.score, model.tables, near))


@register
class LanOverNeighbours(Lan):
    """LAN whose projection sums over neighbours instead of coordinates."""

    name: ClassVar[str] = "lan-over-neighbours"

    def vectors(self, score: Score, tables: Tables, entities: Tensor) -> Tensor:
        """See `Lan`."""
        near = Apart.of_each(self.near.of(entities))
        moved = moved_together(score, tables, near)
        return segment_means(moved, near.pairs.places, near.starts)

    def _attention(
        self, score: Score, tables: Tables, near: Neighbourhoods, logic: Logic
    ) -> Attends:
        """See `Lan`. The moved neighbours are all that attention needs to know."""
        own, near = tables.extra, Apart.of_each(near)
        moved = moved_together(score, tables, near)
        keys, queries = moved @ own[FROM_NEIGHBOUR].T, own[QUERY] @ own[FROM_QUERY].T
        plain = Attention(near, logic, moved, keys, queries, own[VECTOR][0].clone())
        return _in_kernels(plain, self._scratch) if uses_kernels(self.settings) else plain


def _in_kernels(plain: Attention, scratch: Scratch) -> FusedAttention:
    """The kernels project by themselves. Here each moved neighbour is to them an entity, with one
    relation, whose direction is zero: along it nothing is taken away."""
    near, nowhere = plain.near, torch.zeros_like(plain.near.others).numpy()
    zero, zero_key = (rows.new_zeros(1, rows.shape[1]) for rows in (plain.moved, plain.keys))
    sources = (plain.moved, zero, plain.keys, zero_key, plain.queries, plain.vector)
    arrays = kernel.Sources(*(source.detach().contiguous().numpy() for source in sources))
    places = near.pairs.places.numpy()
    pairs = kernel.Pairs(nowhere, places)
    discount = plain.logic.discount.numpy()
    items = kernel.Items(near.starts.numpy(), near.relations.numpy(), places, discount)
    implied = plain.logic.implies.T.contiguous().numpy()
    return FusedAttention(sources, pairs, items, keys_of(arrays, pairs), implied, scratch)
