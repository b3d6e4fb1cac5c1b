"""The masked autoencoder, Eqs. (1) to (6): a row is rebuilt from the facts around it.

With p(x) the number of earlier facts of x and N(x) its facts in D_i ∪ D_i⁻¹ (as subject),

    ē = (p(e)·e_{i-1} + Σ_{(e, r, o) ∈ N(e)} f_sub(r, o)) / (p(e) + |N(e)|),
    r̄ = (p(r)·r_{i-1} + Σ_{(s, r, o) ∈ N(r)} f_rel(s, o)) / (p(r) + |N(r)|).

A row with old facts only has x̄ = x_{i-1}: it is regularized to its old value, which LKGE does
beside this. A row without any fact has no reconstruction and no loss.
"""

import torch
from torch import Tensor

from lkge.data.snapshots import Facts, with_inverses
from lkge.models.parameters import Gradient, Parameters, index
from lkge.models.scores import Score


class Autoencoder:
    """β · (mean_e ‖e - ē‖² + mean_r ‖r - r̄‖²) over rows that have new facts, and its gradient. Such
    rows are the members, entities (u,) and relations (v,): as every fact comes with its inverse, no
    other row is used."""

    def __init__(
        self, score: Score, facts: Facts, old: Parameters, past: Parameters, weight: Parameters
    ) -> None:
        """`old`: x_{i-1}, (k, d). `past`: p(x), (n,). `weight`: β/|E_i| and β/|R_i|, scalars."""
        self.score = score
        self.old = old
        self.past = past
        self.weight = weight
        edges = index(with_inverses(facts), past.device)
        entities, self._subjects = torch.unique(edges[:, 0], return_inverse=True)
        relations, self._relations = torch.unique(edges[:, 1], return_inverse=True)
        self._objects = torch.searchsorted(entities, edges[:, 2].contiguous())
        self.members = Parameters(entities, relations)
        self._new = Parameters(torch.bincount(self._subjects), torch.bincount(self._relations))

    def add_gradient(self, tables: Parameters, gradient: Gradient) -> float:
        """Add the gradient on every member; return the loss."""
        if not len(self.members.entity):
            return 0.0
        for part, members in zip(gradient, self.members, strict=True):
            part.touched[members] = 1
        return self.add_to_members(tables, gradient)

    def add_to_members(self, tables: Parameters, gradient: Gradient) -> float:
        """`add_gradient` where there are facts: Eqs. (5) and (6), differentiated by torch."""
        rows = Parameters(tables.entity, tables.relation).map(
            lambda table, members: table[members].requires_grad_(), self.members
        )
        losses = rows.map(
            lambda row, mean, weight: weight * (row - mean).square().sum(),
            self.reconstruct(rows), self.weight,
        )  # fmt: skip
        loss = losses.entity + losses.relation
        slopes = torch.autograd.grad(loss, list(rows))
        for part, members, slope in zip(gradient, self.members, slopes, strict=True):
            part.add(members, slope)
        return float(loss.detach())

    def reconstruct(self, rows: Parameters) -> Parameters:
        """x̄ of the members, from their rows; (u, d) and (v, d)."""
        heads, tails = rows.entity[self._subjects], rows.entity[self._objects]
        for_entities = self.score.decompose(rows.relation[self._relations], tails)
        for_relations = self.score.relate(heads, tails)
        sums = Parameters(
            torch.zeros_like(rows.entity).index_add(0, self._subjects, for_entities),
            torch.zeros_like(rows.relation).index_add(0, self._relations, for_relations),
        )
        return sums.map(_mean_with_past, self.members, self._new, self.past, self.old)


def _mean_with_past(
    sums: Tensor, members: Tensor, new: Tensor, past: Tensor, old: Tensor
) -> Tensor:
    """(p(x)·x_{i-1} + sum) / (p(x) + |N(x)|) for each member, (u, d)."""
    known = members[members < len(old)]
    total = sums.index_add(
        0, torch.arange(len(known), device=known.device), past[known, None] * old[known]
    )
    return total / (new + past[members])[:, None]
