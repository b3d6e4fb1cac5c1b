"""Evergreen: old facts told by tables that know them by heart, and learned on with new ones.

    L = (1 - λ) · L_new + λ · (κ L_told + (1 - κ) L_held),    λ = δ·|D_old| / (δ·|D_old| + |D_i|).

Old facts are gone; their profile, how often each entity took each relation, tells which questions
to ask again. L_told is the loss of facts that the heart tells, as many of each question as it had:
tables that were taught, when a snapshot had been learned, to know its facts by heart. With the
heart nothing else is needed, κ = 1. Without a profile questions are made up, and nobody knows how
many answers they had: L_held, the cross-entropy of the last softmax and the model's, holds what was
believed of them; or the last tables tell one answer of each, where the model learns from no softmax
over all entities, or that is no matrix product. The squared gradients that Adagrad has summed
up stay with the rows: what has much evidence moves little, what is new moves fast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lkge.backends import backend_for, implementation
from lkge.config import RunConfig
from lkge.data.snapshots import Facts, Snapshot, no_facts, with_inverses
from lkge.methods.base import Method, State, register
from lkge.methods.parts.counts import (
    fact_counts,
    no_counts,
    nothing_new,
    num_facts,
    padded,
    without,
)
from lkge.methods.parts.heart import Heart
from lkge.methods.parts.profile import Profile
from lkge.methods.parts.recollection import recollected
from lkge.methods.parts.retelling import Retelling, answerers
from lkge.methods.parts.transfer import transfer
from lkge.models.losses import DENSE, Distillation
from lkge.models.model import ASK, HEART, RECOLLECT, RETELL, VALIDATE, Model, stream
from lkge.models.parameters import Gradient, Parameters, no_parameters
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Bilinear, ComplEx, score_of

SUMS = "optimizer."
FEWEST_STEPS = 40
"""Steps of an epoch, unless batches become too small for it."""
SMALLEST_BATCH = 100
ENOUGH_STEPS, MOST_PATIENCE = 80, 5
"""Steps without a gain that end a snapshot, at least, but in no more epochs: a short epoch says
little."""
REFUTATION = 100
"""New facts that a withdrawn one weighs: it has been learned for long, and is refuted in a few
steps."""
RECOLLECTED = 5000
"""Questions that are asked again in a snapshot where there is no profile, at most: one for two new
facts, but enough for a step."""
TOLD = 1.25
"""Questions of a step that are told, for each that would be held: they cost a fraction of it."""
VALIDATED = 5000
"""Validation facts that tell after an epoch whether it was a gain, at most."""
BESIDE_HELD, BESIDE_TOLD = 1 / 2, 1 / 5
"""New facts of a step beside old questions, for each where nothing is old, if they are learned by
matrix products."""


@register
class Evergreen(Method):
    """Made for bilinear scores and the softmax, `--preset evergreen`; it runs on any."""

    name: ClassVar[str] = "evergreen"
    summary: ClassVar[str] = "tell old facts, known by heart, with new ones; the house's own method"
    keeps: ClassVar[str] = (
        "how often each entity took each relation, tables that know the facts by heart, the "
        "optimizer's sums, and a count a row"
    )
    tunes: ClassVar[Mapping[str, tuple[float, ...]]] = {"distillation": (1.0, 2.0, 3.0)}
    fewest_epochs: ClassVar[int] = 3

    def __init__(self, run: RunConfig) -> None:
        super().__init__(run)
        self.rowwise = not run.method.query_counts
        self._profile = self._asked = Profile()
        self._past = no_counts()
        self._withdrawn = no_facts()
        self._optimizer: State = {}
        self._old = no_parameters(run.model.dim, run.training.device)
        self._heart = _heart_of(run)
        self._distillation: Distillation | None = None
        self._retelling: Retelling | None = None
        self._share = self._told = 0.0
        self._beside = 1.0
        self._snapshot = 0
        self._steps = 0

    def retract(self, facts: Facts) -> None:
        """They no longer count, and are neither asked again nor known by heart."""
        if self._heart is not None:
            generator = stream(self.run.training.seed, HEART, self._snapshot, len(facts))
            self._heart = self._heart.without(facts, self._profile, generator)
        self._profile = self._profile.without(facts)
        self._past = without(self._past, facts)
        self._withdrawn = facts

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Keep the tables as the teacher, draw new rows."""
        self._old = model.tables.clone()
        super().grow(model, snapshot)
        if self.config.transfer:
            model.tables = transfer(model.score, snapshot.train, model.tables, self._old)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """See which questions are told or held, by whom, and how much they weigh."""
        self._snapshot, self._steps = snapshot.index, 0
        old = self._weight(snapshot) * num_facts(self._past)
        new = len(snapshot.train) + REFUTATION * len(self._withdrawn)
        self._share = old / max(1, old + new)
        if self._share:
            self._asked = (
                self._profile if self.config.query_counts else self._recollected(model, new)
            )
        if len(self._asked.counts) and self._share:
            self._told = self._told_share
            if _products(self.run) is not None:
                self._beside = self._told * BESIDE_TOLD + (1 - self._told) * BESIDE_HELD
            if self._told < 1:
                kind = implementation(model.backend, "distillation", model.score)
                self._distillation = kind(model.score, self._old)
            if self._told > 0:
                self._retelling = self._retold(model, 2 * len(snapshot.train))

    def _weight(self, snapshot: Snapshot) -> float:
        """δ, as given where it is 1 at most. What is more counts as far as new facts have nothing
        new in them, as others are learned in a row of their own; and less in a dense graph, where
        they answer questions that have many answers."""
        given = self.config.replay_weight
        if given <= 1:
            return given
        known = self.facts_per_entity(with_inverses(snapshot.train), snapshot)
        settled = nothing_new(snapshot.train, self._past)
        return 1 + (given - 1) * settled * min(1.0, DENSE / max(1.0, known))

    @property
    def _told_share(self) -> float:
        """κ: all where answers cannot be held, none where nobody knows how many there were."""
        if _products(self.run) is None:
            return 1.0
        return self.config.replay_share if self.config.query_counts else 0.0

    def facts_per_entity(self, edges: Facts, snapshot: Snapshot) -> float:
        """Old facts count, too."""
        return (2 * num_facts(self._past) + len(edges)) / max(1, snapshot.num_entities)

    def batch_size(self, facts: int) -> int:
        """Smaller where old questions are asked beside new facts, and where an epoch would have few
        steps."""
        wanted = math.ceil(self._beside * self.run.training.batch_size)
        return min(wanted, max(SMALLEST_BATCH, facts // FEWEST_STEPS))

    def patience(self, snapshot: Snapshot) -> int:
        """More where epochs are short; but what is added to a graph of rows is learned at once."""
        given, edges = self.run.training.patience, 2 * len(snapshot.train)
        if not edges or (self.rowwise and num_facts(self._past)):
            return given
        needed = math.ceil(ENOUGH_STEPS * self.batch_size(edges) / edges)
        return max(given, min(MOST_PATIENCE, needed))

    def validation(self, snapshot: Snapshot) -> Facts:
        """Some of the validation facts, the same in every epoch."""
        facts = super().validation(snapshot)
        if len(facts) <= VALIDATED:
            return facts
        generator = stream(self.run.training.seed, VALIDATE, snapshot.index)
        return facts[np.sort(generator.choice(len(facts), VALIDATED, replace=False))]

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Give the gradient of L_new its share, and ask some old questions again."""
        if self._retelling is None and self._distillation is None:
            return 0.0
        for part in gradient:
            part.scale(1 - self._share)
        told, loss = self._told * self._share, 0.0
        generator = stream(self.run.training.seed, ASK, self._snapshot, self._steps)
        if self._retelling is not None:
            loss += self._retelling.add_gradient(model, told, self._steps, gradient, generator)
        if self._distillation is not None:
            held = math.ceil((1 - self._told) * self.config.replay_queries)
            asked, shares = self._asked.draw(held, generator)
            weights = (self._share - told) * shares
            loss += self._distillation.add_gradient(model.tables, asked, weights, gradient)
        return loss

    def after_step(self, model: Model, gradient: Gradient) -> None:
        """Other questions next time."""
        self._steps += 1

    def optimizer_state(self) -> State | None:
        """The sums of the last snapshot."""
        return self._optimizer if self.config.carry_optimizer_state else None

    def keep_optimizer(self, state: State) -> None:
        """See `Method`."""
        self._optimizer = state

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Remember which questions were answered, and forget the answers, but by heart."""
        if self._heart is not None:
            generator = stream(self.run.training.seed, HEART, snapshot.index)
            self._heart = self._heart.with_facts(
                snapshot.train, model.tables, self._profile, generator
            )
        if self.config.query_counts:
            self._profile = self._profile.with_facts(snapshot.train)
        new = fact_counts(snapshot.train, snapshot)
        self._past = padded(self._past, new).map(torch.add, new)
        self._withdrawn = no_facts()
        self._distillation = self._retelling = None
        self._beside = 1.0

    def state(self) -> State:
        """How many old facts each row has, their profile, the heart, and what the optimizer has
        gathered."""
        profile = self._profile.named() if self.config.query_counts else {}
        heart = self._heart.tables.named("heart") if self._heart is not None else {}
        sums = {SUMS + name: tensor for name, tensor in self._optimizer.items()}
        return self._past.named("facts") | profile | heart | sums

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`. What was kept without a heart goes on without one."""
        self._past = Parameters.from_named(state, "facts")
        if self.config.query_counts:
            self._profile = Profile.from_named(state)
        if self._heart is not None:
            self._heart = (
                replace(self._heart, tables=Parameters.from_named(state, "heart"))
                if "heart.entity" in state
                else None
            )
        self._optimizer = {
            name.removeprefix(SUMS): tensor
            for name, tensor in state.items()
            if name.startswith(SUMS)
        }

    def working_state(self) -> State:
        """How many times questions were asked."""
        return {"steps": torch.tensor([self._steps])}

    def load_working_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self._steps = int(state["steps"])

    def _recollected(self, model: Model, facts: int) -> Profile:
        """Questions that the last tables are sure of, to hold against so many facts; none whose
        answers were withdrawn."""
        size = min(RECOLLECTED, max(self.config.replay_queries, facts // 2))
        generator = stream(self.run.training.seed, RECOLLECT, self._snapshot)
        evidence = self._old.map(torch.ones_like)
        for name in ("sums", "second"):
            if f"{name}.entity" in self._optimizer:
                evidence = Parameters.from_named(self._optimizer, name)
        asked = recollected(model.score, self._old, evidence, size, generator)
        return asked.without(self._withdrawn)

    def _retold(self, model: Model, facts: int) -> Retelling:
        """What is told while an epoch learns so many new facts."""
        everyone = np.arange(len(self._old.entity))
        num_relations = len(self._old.relation)
        tables, score = self._old, model.score
        if self._heart is not None:
            tables, score = self._heart.tables, self._heart.score
        return Retelling(
            TablePredictor.of(tables, score, model.backend),
            self._asked,
            answerers(self._asked, num_relations)
            if self.config.query_counts
            else [everyone] * num_relations,
            math.ceil(self._told * TOLD * self.config.replay_queries),
            max(1, math.ceil(facts / self.batch_size(facts))),
            partial(stream, self.run.training.seed, RETELL, self._snapshot),
        )


def _products(run: RunConfig) -> Bilinear | None:
    """The score, where the loss is a softmax over all entities and that is a matrix product."""
    score = score_of(run)
    return score if isinstance(score, Bilinear) and run.training.loss == "softmax" else None


def _heart_of(run: RunConfig) -> Heart | None:
    """One that knows nothing yet; with ComplEx where the score itself is no matrix product."""
    if not (run.method.replay_model and run.method.query_counts and run.method.replay_share):
        return None
    score, dim = score_of(run), run.model.dim
    backend = backend_for(run.training.backend, run.training.device)
    if isinstance(score, Bilinear):
        return Heart(score, no_parameters(dim, run.training.device), backend)
    return Heart(ComplEx(), no_parameters(dim + dim % 2, run.training.device), backend, apart=True)
