"""Evergreen: old facts as the last model tells them, old answers as it gave them, and new facts.

    L = (1 - λ) · L_new + λ · (κ L_told + (1 - κ) L_held),    λ = δ·|D_old| / (δ·|D_old| + |D_i|).

Old facts are gone; their profile, how often each entity took each relation, tells which questions
to ask again. L_told is the loss of facts that the last tables tell, as many of each question as it
had; L_held is the cross-entropy of the last softmax and the model's, which runs over newcomers too.
The one learns old facts on, the other holds what was believed of all else; κ is half the share of
new facts that are about nothing new, and so revise what was believed. Without a profile questions
are made up, and only held; where the model learns from no softmax over all entities, or that is no
matrix product, they are only told. The squared gradients that Adagrad has summed up stay with the
rows: what has much evidence moves little, what is new moves fast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lkge.config import Settings
from lkge.data.snapshots import Facts, Snapshot, no_facts
from lkge.methods.base import Method, State, register
from lkge.methods.parts.counts import fact_counts, no_counts, num_facts, padded, without
from lkge.methods.parts.profile import Profile
from lkge.methods.parts.recollection import recollected
from lkge.methods.parts.retelling import Retelling, answerers
from lkge.methods.parts.transfer import transfer
from lkge.models.model import ASK, RECOLLECT, RETELL, Model, stream
from lkge.models.objectives.distillation import Distillation, distillation
from lkge.models.predictor import TablePredictor
from lkge.models.tables import Gradient, Tables, no_tables

SUMS = "optimizer."
FEWEST_STEPS = 40
"""Steps of an epoch, unless batches become too small for it."""
SMALLEST_BATCH = 100
FIRST_PATIENCE = 3
"""Epochs without a gain that end the first snapshot, at least: all others build on it."""
REFUTATION = 100
"""New facts that a withdrawn one weighs: it has been learned for long, and is refuted in a few
steps."""
MOST_TOLD = 1.5
"""Questions of a step that are told, at most, for each of `questions`."""
RECOLLECTED = 5000
"""Questions that are asked again in a snapshot where there is no profile, at most: one for two new
facts, but enough for a step."""


@register
class Evergreen(Method):
    """Made for bilinear scores and the softmax, `--preset evergreen`; it runs on any."""

    name: ClassVar[str] = "evergreen"
    summary: ClassVar[str] = "tell old facts as the last model knows them; the house's own method"
    keeps: ClassVar[str] = "how often each entity took each relation, and the optimizer's sums"
    tunes: ClassVar[Mapping[str, tuple[float, ...]]] = {"distillation": (0.3, 1.0, 3.0)}

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.rowwise = not settings.profile
        self._profile = self._asked = Profile()
        self._past = no_counts()
        self._withdrawn = no_facts()
        self._optimizer: State = {}
        self._old = no_tables(settings.dim, settings.device)
        self._distillation: Distillation | None = None
        self._retelling: Retelling | None = None
        self._share = self._told = 0.0
        self._snapshot = 0
        self._steps = 0

    def retract(self, facts: Facts) -> None:
        """They no longer count, and are not asked again."""
        self._profile = self._profile.without(facts)
        self._past = without(self._past, facts)
        self._withdrawn = facts

    def grow(self, model: Model, snapshot: Snapshot) -> None:
        """Keep the tables as the teacher, draw new rows."""
        self._old = model.tables.clone()
        super().grow(model, snapshot)
        if self.settings.transfer:
            model.tables = transfer(model.score, snapshot.train, model.tables, self._old)

    def begin(self, model: Model, snapshot: Snapshot) -> None:
        """The last tables become the teacher, weighed by the facts that made them."""
        self._snapshot, self._steps = snapshot.index, 0
        old = self.settings.distillation * num_facts(self._past)
        new = len(snapshot.train) + REFUTATION * len(self._withdrawn)
        self._share = old / max(1, old + new)
        if self._share:
            self._asked = self._profile if self.settings.profile else self._recollected(model, new)
        if len(self._asked.counts) and self._share:
            self._told = self._told_share(model, snapshot.train)
            if self._told < 1:
                self._distillation = distillation(model.score, self._old, model.fused)
            if self._told > 0:
                self._retelling = self._retold(model, 2 * len(snapshot.train))

    def _told_share(self, model: Model, new: Facts) -> float:
        """κ: all where answers cannot be held, none where nobody knows how many there were, and
        else in proportion to the new facts that are about nothing new: these revise what was
        believed."""
        if not (model.score.is_bilinear and self.settings.objective == "softmax"):
            return 1.0
        if not self.settings.profile or not len(new):
            return 0.0
        entities, relations = len(self._old.entity), len(self._old.relation)
        about_old = (new[:, (0, 2)] < entities).all(axis=1) & (new[:, 1] < relations)
        return self.settings.told * float(about_old.mean())

    @property
    def _revised(self) -> float:
        """From 0, where nothing is told, to 1, where it counts as much as what is held, or more."""
        return min(1.0, 2 * self._told)

    @property
    def _num_held(self) -> int:
        """Questions of a step that are held."""
        return math.ceil((1 - self._told) * self.settings.questions)

    @property
    def _num_told(self) -> int:
        """Questions of a step that are told; more than their share, as they are a noisy sample of
        old facts, where what is held has no noise as long as nothing changes."""
        return math.ceil(MOST_TOLD * self._revised * self.settings.questions)

    def facts_per_entity(self, edges: Facts, snapshot: Snapshot) -> float:
        """Old facts count, too."""
        return (2 * num_facts(self._past) + len(edges)) / max(1, snapshot.num_entities)

    def batch_size(self, facts: int) -> int:
        """Smaller where old questions are held beside new facts, and where an epoch would have few
        steps."""
        held = 0.0 if self._distillation is None else 1 - self._revised
        wanted = math.ceil((1 - held / 2) * self.settings.batch_size)
        return min(wanted, max(SMALLEST_BATCH, facts // FEWEST_STEPS))

    def patience(self, snapshot: Snapshot) -> int:
        """More where nothing has been learned yet."""
        given = self.settings.patience
        return given if num_facts(self._past) else max(FIRST_PATIENCE, given)

    def penalty(self, model: Model, gradient: Gradient) -> float:
        """Give the gradient of L_new its share, and ask some old questions again."""
        if self._retelling is None and self._distillation is None:
            return 0.0
        for part in gradient:
            part.scale(1 - self._share)
        told, loss = self._told * self._share, 0.0
        generator = stream(self.settings.seed, ASK, self._snapshot, self._steps)
        if self._retelling is not None:
            loss += self._retelling.add_gradient(model, told, self._steps, gradient, generator)
        if self._distillation is not None:
            asked, shares = self._asked.draw(self._num_held, generator)
            weights = (self._share - told) * shares
            loss += self._distillation.add_gradient(model.tables, asked, weights, gradient)
        return loss

    def after_step(self, model: Model, gradient: Gradient) -> None:
        """Other questions next time."""
        self._steps += 1

    def optimizer_state(self) -> State | None:
        """The sums of the last snapshot."""
        return self._optimizer if self.settings.carried_sums else None

    def keep_optimizer(self, state: State) -> None:
        """See `Method`."""
        self._optimizer = state

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Remember which questions were answered, and forget the answers."""
        if self.settings.profile:
            self._profile = self._profile.with_facts(snapshot.train)
        new = fact_counts(snapshot.train, snapshot)
        self._past = padded(self._past, new).map(torch.add, new)
        self._withdrawn = no_facts()
        self._distillation = self._retelling = None

    def state(self) -> State:
        """How many old facts each row has, their profile, and what the optimizer has gathered."""
        profile = self._profile.named() if self.settings.profile else {}
        sums = {SUMS + name: tensor for name, tensor in self._optimizer.items()}
        return self._past.named("facts") | profile | sums

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """See `Method`."""
        self._past = Tables.from_named(state, "facts")
        if self.settings.profile:
            self._profile = Profile.from_named(state)
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
        size = min(RECOLLECTED, max(self.settings.questions, facts // 2))
        generator = stream(self.settings.seed, RECOLLECT, self._snapshot)
        evidence = self._old.map(torch.ones_like)
        for name in ("sums", "second"):
            if f"{name}.entity" in self._optimizer:
                evidence = Tables.from_named(self._optimizer, name)
        asked = recollected(model.score, self._old, evidence, size, generator)
        return asked.without(self._withdrawn)

    def _retold(self, model: Model, facts: int) -> Retelling:
        """What the last tables tell while an epoch learns so many new facts."""
        everyone = np.arange(len(self._old.entity))
        num_relations = len(self._old.relation)
        return Retelling(
            TablePredictor.of(self._old, model.score, model.fused),
            self._asked,
            answerers(self._asked, num_relations)
            if self.settings.profile
            else [everyone] * num_relations,
            self._num_told,
            max(1, math.ceil(facts / self.batch_size(facts))),
            partial(stream, self.settings.seed, RETELL, self._snapshot),
        )
