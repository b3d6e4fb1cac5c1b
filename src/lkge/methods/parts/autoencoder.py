"""The masked autoencoder, Eqs. (1) to (6): a row is rebuilt from the facts around it.

With p(x) the number of earlier facts of x and N(x) its facts in D_i ∪ D_i⁻¹ (as subject),

    ē = (p(e)·e_{i-1} + Σ_{(e, r, o) ∈ N(e)} f_sub(r, o)) / (p(e) + |N(e)|),
    r̄ = (p(r)·r_{i-1} + Σ_{(s, r, o) ∈ N(r)} f_rel(s, o)) / (p(r) + |N(r)|).

A row with old facts only has x̄ = x_{i-1}: a pull to its old value, which LKGE's anchor carries.
A row without any fact has no reconstruction and no loss.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lkge.data.snapshots import Facts, with_inverses
from lkge.kernels.products import PHASE, STRETCH, TURN, Edges, Form, add_flows, add_sums
from lkge.kernels.reconstruction import neighbourhood, reconstruction_gradient
from lkge.kernels.scratch import Scratch
from lkge.models.scores import Bilinear, RotatE, Score, Translation
from lkge.models.tables import Gradient, Tables


class Autoencoder:
    """β · (mean_e ‖e - ē‖² + mean_r ‖r - r̄‖²) over rows that have new facts, and its gradient."""

    def __init__(
        self, score: Score, facts: Facts, old: Tables, past: Tables, weight: Tables, fused: bool
    ) -> None:
        """`old`: x_{i-1}, (k, d). `past`: p(x), (n,). `weight`: β/|E_i| and β/|R_i|, scalars."""
        self.score = score
        self.old = old
        self.past = past
        self.weight = weight
        self._fused = fused
        edges = with_inverses(facts)
        device = past.entity.device
        self._edges = torch.from_numpy(edges).long().to(device)
        self._members = Tables(torch.unique(self._edges[:, 0]), torch.unique(self._edges[:, 1]))
        self._new = Tables(
            torch.bincount(self._edges[:, 0], minlength=len(past.entity)),
            torch.bincount(self._edges[:, 1], minlength=len(past.relation)),
        )
        self._near = neighbourhood(edges)
        self._scratch = Scratch()

    def add_gradient(self, tables: Tables, gradient: Gradient) -> float:
        """Add the gradient on every member and neighbour; return the loss."""
        if not len(self._edges):
            return 0.0
        for part, members in zip(gradient, self._members, strict=True):
            part.touched[members] = 1
        if self._fused and isinstance(self.score, Translation):
            return self._add_translated(tables, gradient)
        if self._fused and isinstance(self.score, Bilinear | RotatE):
            return self._add_multiplied(tables, gradient)
        return self._add_plain(tables, gradient)

    def _add_translated(self, tables: Tables, gradient: Gradient) -> float:
        return reconstruction_gradient(
            self._near,
            tables.entity.numpy(),
            tables.relation.numpy(),
            self.old.entity.numpy(),
            self.old.relation.numpy(),
            self.past.entity.numpy(),
            self.past.relation.numpy(),
            float(self.weight.entity),
            float(self.weight.relation),
            gradient.entity.values.numpy(),
            gradient.relation.values.numpy(),
            self._scratch,
        )

    def _add_multiplied(self, tables: Tables, gradient: Gradient) -> float:
        """Scores whose `decompose` and `relate` are products of rows, brought to a length."""
        factors = tables.relation.detach().requires_grad_()
        turns = self.score.prepare_relations(factors)
        forms = _forms(self.score)
        subjects, relations, objects = self._edges.T.contiguous().numpy()
        edges = Edges(relations, objects, subjects), Edges(subjects, objects, relations)
        entity, turn = tables.entity.numpy(), turns.detach().numpy()
        sums = tables.map(torch.zeros_like)
        add_sums(forms[0], edges[0], turn, entity, sums.entity.numpy())
        add_sums(forms[1], edges[1], entity, entity, sums.relation.numpy())
        apart = sums.map(_mean_with_past, self._new, self.past, self.old).map(
            lambda mean, row, new: (row - mean) * (new > 0)[:, None], tables, self._new
        )
        slopes = apart.map(lambda rows, weight: 2 * weight * rows, self.weight)
        on_sums = slopes.map(
            lambda rows, new, past: -rows / (new + past).clamp(min=1)[:, None], self._new, self.past
        )
        for part, rows in zip(gradient, slopes, strict=True):
            part.values.add_(rows)
        on_entity, on_turns = gradient.entity.values.numpy(), torch.zeros_like(factors)
        add_flows(
            forms[0], edges[0], turn, entity, on_sums.entity.numpy(), on_turns.numpy(), on_entity
        )
        add_flows(
            forms[1], edges[1], entity, entity, on_sums.relation.numpy(), on_entity, on_entity
        )
        gradient.relation.values.add_(torch.autograd.grad(turns, factors, on_turns)[0])
        losses = apart.map(lambda rows, weight: weight * rows.square().sum(), self.weight)
        return float(losses.entity + losses.relation)

    def _add_plain(self, tables: Tables, gradient: Gradient) -> float:
        """The twin: Eqs. (5) and (6) in torch, differentiated by torch."""
        variables = tables.map(lambda table: table.detach().requires_grad_())
        rebuilt = self.reconstruct(variables)
        losses = variables.map(
            lambda row, mean, members, weight: (
                weight * (row[members] - mean[members]).square().sum()
            ),
            rebuilt,
            self._members,
            self.weight,
        )
        loss = losses.entity + losses.relation
        flows = torch.autograd.grad(loss, [variables.entity, variables.relation])
        for part, flow in zip(gradient, flows, strict=True):
            part.values.add_(flow)
        return float(loss.detach())

    def reconstruct(self, tables: Tables) -> Tables:
        """x̄ for every row, (n, d) and (2m, d); rows without any fact are zero."""
        subjects, relations, objects = self._edges.T
        from_neighbours = Tables(
            _sums(
                self.score.decompose(tables.relation[relations], tables.entity[objects]),
                subjects,
                tables.entity,
            ),
            _sums(
                self.score.relate(tables.entity[subjects], tables.entity[objects]),
                relations,
                tables.relation,
            ),
        )
        return from_neighbours.map(_mean_with_past, self._new, self.past, self.old)


def _forms(score: Score) -> tuple[Form, Form]:
    """`decompose` of prepared relations, and `relate`."""
    if isinstance(score, RotatE):
        return Form(TURN, score.reals), Form(PHASE, score.reals)
    return Form(STRETCH, score.reals), Form(STRETCH, score.reals, share=0.5)


def _sums(values: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).index_add(0, rows, values)


def _mean_with_past(sums: Tensor, new: Tensor, past: Tensor, old: Tensor) -> Tensor:
    padding = old.new_zeros(len(sums) - len(old), old.shape[1])
    total = sums + past[:, None] * torch.cat([old, padding])
    return total / (new + past).clamp(min=1)[:, None]
