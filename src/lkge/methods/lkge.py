"""LKGE (Cui et al., 2023): masked autoencoder, embedding transfer, count-weighted regularisation.

L = L_new + α·L_old + β·L_MAE                                             (12)
"""

import torch
from torch import Tensor

from lkge.backends import implementation
from lkge.backends.torch_autoencoder import Autoencoder
from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot, no_facts, with_inverses
from lkge.methods.base import register
from lkge.methods.counts import CountingMethod, fact_counts, padded
from lkge.methods.lkge_settings import LkgeConfig
from lkge.methods.regularization import QuadraticPenalty, RegularizedMethod
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters, index, no_parameters
from lkge.models.scores import Score


@register
class Lkge(CountingMethod, RegularizedMethod):
    """Each part can be switched off: `fine_tuning`, `autoencoder`, `transfer`, `regularization`."""

    name = "lkge"

    Config = LkgeConfig
    config: LkgeConfig

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        config = self.config
        self._alpha = config.regularization_weight if config.regularization else 0.0
        self._beta = config.autoencoder_weight if config.autoencoder else 0.0
        self._old = no_parameters(run.model.dim, self.device)
        self._autoencoder: Autoencoder | None = None

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Draw new rows, then transfer to those that touch old ones."""
        self._old = model.tables.clone()
        super().grow(model, snapshot)
        if self.config.transfer:
            model.tables = transfer(model.score, snapshot.train, model.tables, self._old)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """Fix what stays the same for the whole snapshot: counts, weights, neighbourhoods."""
        new = fact_counts(snapshot.train, snapshot).to(self.device)
        past = padded(self._past.to(self.device), new)
        share = new.map(lambda counts: torch.tensor(self._beta / len(counts)))
        weight = past.map(self._pull, new, share)
        weight = weight.map(lambda w, old: w[: len(old), None].contiguous(), self._old)
        self._penalty = QuadraticPenalty(self._old, weight)
        kind = implementation(model.backend, "autoencoder", model.score)
        self._autoencoder = kind(model.score, snapshot.train, self._old, past, share)

    def facts(self, snapshot: Snapshot) -> Facts:
        """D_i; without fine-tuning, nothing after the first snapshot."""
        trains = self.config.fine_tuning or snapshot.index == 0
        return snapshot.train if trains else no_facts()

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """β·L_MAE, then α·L_old on what the step touches."""
        loss = 0.0
        if self._autoencoder is not None and self._beta:
            loss += self._autoencoder.add_gradient(model.tables, gradient)
        if len(self._old.entity):
            loss += super().penalty(model, gradient)
        return loss

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Count the facts that are now old."""
        super().end(model, snapshot)
        self._penalty = self._autoencoder = None

    def _pull(self, past: Tensor, new: Tensor, share: Tensor) -> Tensor:
        """How strongly a row is held, (n,): α·ω(x), and for a row with old facts only, whose
        reconstruction is its old value, its share of the autoencoder as well."""
        weight = row_weight(past, new)
        if self.config.regularization_form == "squared":
            weight = weight.square()
        return self._alpha * weight + share.item() * ((new == 0) & (past > 0))


def row_weight(past: Tensor, new: Tensor) -> Tensor:
    """ω(x) = 1 - |N_i(x)| / Σ_{j ≤ i} |N_j(x)|, Eq. (11); zero for a row without any fact."""
    return past / (past + new).clamp(min=1)


def transfer(score: Score, facts: Facts, tables: Parameters, old: Parameters) -> Parameters:
    """`tables`, grown from `old`; a new row starts where its facts with old rows put it.

        e = mean over (e, r, o) with old r and o of f_sub(r_{i-1}, o_{i-1}),     (8)
        r = mean over (s, r, o) with old s and o of f_rel(s_{i-1}, o_{i-1}).     (9)

    A new row without such a fact keeps its random value.
    """
    edges = index(with_inverses(facts), tables.device)
    old_subject, old_object = (edges[:, k] < len(old.entity) for k in (0, 2))
    old_relation = edges[:, 1] < len(old.relation)
    entities, r, o = edges[~old_subject & old_relation & old_object].T
    s, relations, t = edges[old_subject & ~old_relation & old_object].T
    entity_values = score.decompose(old.relation[r], old.entity[o])
    relation_values = score.relate(old.entity[s], old.entity[t])
    return Parameters(
        _with_means(tables.entity, entities, entity_values),
        _with_means(tables.relation, relations, relation_values),
    )


def _with_means(table: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """The table, each row among `rows` replaced by the mean of its values."""
    members, places, counts = torch.unique(rows, return_inverse=True, return_counts=True)
    sums = table.new_zeros(len(members), table.shape[1]).index_add(0, places, values)
    return table.index_copy(0, members, sums / counts[:, None])
