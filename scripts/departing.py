"""Systems with a departure of the paper's published code in them; `departures.py` runs them.

What is known of that code is a line each, not the code itself: how a departure is made here is our
reading of that line.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from lkge.backends.torch_autoencoder import Autoencoder
from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.methods import register
from lkge.methods.baselines import Retrain
from lkge.methods.lkge import Lkge
from lkge.methods.regularization import Ewc, Si, importance
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters, index, no_parameters


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
        self._importance.relation -= importance(*ways, self.config.damping)


@register
class EwcBySlip(Ewc):
    """EWC whose mean over snapshots lacks its brackets. That is our reading: of the slip we know
    that it is one of precedence, in the averaging over snapshots. With its brackets the mean is
    (F_{i-1}·(i - 1) + F_new) / i; EWC itself has the sum of all F_new here."""

    name: ClassVar[str] = "ewc-by-slip"

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """F_i = F_{i-1}·(i - 1) + F_new / i, i from 1 on."""
        old, self._fisher = (
            self._fisher,
            no_parameters(self.run.model.dim, self.run.training.device),
        )
        super().end(model, snapshot)
        i, new = snapshot.index + 1, self._fisher
        old = old.grown_to(new.map(torch.zeros_like))
        self._fisher = old.map(lambda before, now: before * (i - 1) + now / i, new)


class FromNewFacts(Autoencoder):
    """The masked autoencoder as it is without x_{i-1}: a row is rebuilt from new facts alone, from
    none as zero, and rebuilt entities have no negative coordinate. For translations.

    ē = ReLU(mean of o - r over N(e)),    r̄ = mean of o - s over N(r)
    """

    def __init__(self, model: Model, facts: Facts, past: Parameters, weight: Parameters) -> None:
        nothing = past.map(torch.zeros_like)
        super().__init__(model.score, facts, model.tables, nothing, weight)
        subjects, relations, objects = index(with_inverses(facts), past.device).T
        entities, all_relations = (len(counts) for counts in past)
        self.members = past.map(lambda counts: torch.arange(len(counts)))
        self._objects_of_entity = means(subjects, objects, entities, entities)
        self._relations_of_entity = means(subjects, relations, entities, all_relations)
        self._objects_of_relation = means(relations, objects, all_relations, entities)
        self._subjects_of_relation = means(relations, subjects, all_relations, entities)

    def reconstruct(self, rows: Parameters) -> Parameters:
        """See `Autoencoder`; every row is a member."""
        return Parameters(
            (
                self._objects_of_entity @ rows.entity - self._relations_of_entity @ rows.relation
            ).relu(),
            (self._objects_of_relation - self._subjects_of_relation) @ rows.entity,
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
