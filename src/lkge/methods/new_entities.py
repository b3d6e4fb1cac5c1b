"""Known queries as negatives of new entities.

A new entity is a candidate of every query. Learned at once, each known query (h, r, ?) would lower
its score, unless it is an answer. A small update trains on few of the known facts: new entities
would come before true answers of all other queries. So each step adds the gradient

    ∂/∂x Σ_q log Σ_e exp f(q, e)

on the rows x of new entities, estimated from a few known facts, as if an epoch had them all. No
other row moves: the cost of a step is that of a few hundred facts.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from lkge.data.history import History
from lkge.data.snapshots import with_inverses
from lkge.models.parameters import Gradient, Parameters, index
from lkge.models.scores import Score


@dataclass(frozen=True)
class NewEntityNegatives:
    """Of the entities from id `first_new` on.

    num_old     old entities of the graph, of which the tables may have a part
    facts       known facts of a step
    candidates  old entities of a step, by which the sums over all are estimated
    weight      of all known facts that a step stands for, inverses among them, in its mean loss
    """

    score: Score
    history: History
    first_new: int
    num_old: int
    facts: int
    candidates: int
    weight: float

    def add_gradient(
        self, tables: Parameters, gradient: Gradient, generator: np.random.Generator
    ) -> None:
        """Add the gradient on the rows of new entities."""
        facts = index(with_inverses(self.history.sample(self.facts, generator)), tables.device)
        if not len(facts):
            return
        size = min(self.candidates, self.first_new)
        drawn = np.sort(generator.choice(self.first_new, size, replace=False))
        entities = self.score.prepare_entities(tables.entity[index(drawn, tables.device)])
        heads, tails = (self.score.prepare_entities(tables.entity[facts[:, k]]) for k in (0, 2))
        relations = self.score.prepare_relations(tables.relation[facts[:, 1]])
        queries = self.score.compose(heads, relations)
        among_old = torch.logsumexp(self.score.candidates(queries, entities), dim=1)
        of_facts = self.score.score(heads, relations, tails)
        old = torch.logaddexp(among_old + math.log(self.num_old / size), of_facts)
        rows = tables.entity[self.first_new :].detach().requires_grad_()
        new = self.score.candidates(queries, self.score.prepare_entities(rows))
        share = torch.logaddexp(old, torch.logsumexp(new, dim=1)) - old
        loss = self.weight * share.mean()
        (on_rows,) = torch.autograd.grad(loss, [rows])
        ids = torch.arange(self.first_new, len(tables.entity), device=rows.device)
        gradient.entity.add(ids, on_rows)
