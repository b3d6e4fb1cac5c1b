"""Old facts as some tables tell them.

A profile knows that the question (h, r, ?) was answered c(h, r) times, and who has ever answered
for r: the entities e with c(e, r⁻¹) > 0. Among these the tables know who is the likeliest: the
c(h, r) best are taken for the answers. Any objective can learn them like new facts. Every epoch
asks other questions, so that no few of them are learned for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from lkge.backends.torch_softmax import MOST_NUMBERS, blocks_of
from lkge.data.batches import batches, drawn_sample, question_batches
from lkge.data.snapshots import Facts, no_facts
from lkge.methods.parts.profile import Profile
from lkge.models.model import Model
from lkge.models.parameters import Gradient
from lkge.models.predictor import TablePredictor

BLOCK = 256
"""Questions of one relation that are answered together, at most: they want about as many
answers."""

RIVALS = 0.1
"""The share of all entities that the answers of a step are told apart from, other ones in each: old
facts have been told apart from many when they were learned."""
POWER = 0.5
"""One of d that were drawn from n others stands for √(n / d): between itself alone, which would let
newcomers in, and all of its share, which would keep out what is true but was not told."""

Entities = NDArray[np.int64]
Draw = Callable[[int], np.random.Generator]
"""The random numbers of an epoch."""


class Retelling:
    """What is told in the steps of a snapshot: up to `questions` old questions in each, with all of
    their answers. An epoch has `steps` of them, and asks no question twice."""

    def __init__(
        self,
        teacher: TablePredictor,
        profile: Profile,
        answerers: Sequence[Entities],
        questions: int,
        steps: int,
        draw: Draw,
    ) -> None:
        self.teacher = teacher
        self.profile = profile
        self.answerers = answerers
        self._size = min(len(profile.counts), questions * steps)
        self._steps = steps
        self._draw = draw
        self._epoch = -1
        self._parts: list[Facts] = []
        self._all: Facts | None = None
        self._gradient: Gradient | None = None

    def facts(self, step: int) -> Facts:
        """What is told in a step of the snapshot, from 0; (k, 3)."""
        epoch, place = divmod(step, self._steps)
        if epoch != self._epoch:
            self._epoch, self._parts = epoch, self._told(self._draw(epoch))
        return self._parts[place % len(self._parts)]

    def _told(self, generator: np.random.Generator) -> list[Facts]:
        """The facts of each step of an epoch."""
        facts = self._asked(generator)
        size = -(-len(facts) // self._steps)
        return [batch.facts for batch in question_batches(facts, size, generator)]

    def _asked(self, generator: np.random.Generator) -> Facts:
        """What is told in an epoch; where that is all, it is the same in the next."""
        places = generator.choice(len(self.profile.counts), self._size, replace=False)
        if self._all is not None:
            return self._all
        facts = told(self.teacher, self.profile, np.sort(places), self.answerers)
        if self._size == len(self.profile.counts):
            self._all = facts
        return facts

    def add_gradient(
        self,
        model: Model,
        weight: float,
        step: int,
        gradient: Gradient,
        generator: np.random.Generator,
    ) -> float:
        """Add `weight` times the gradient of the facts of a step, learned as if they were new, but
        a softmax over all entities runs over some; return `weight` times their loss."""
        facts, entities = self.facts(step), len(model.tables.entity)
        sharing = model.run.training.negatives_shared_by
        (batch,) = batches(facts, len(facts), model.negatives, entities, generator, sharing)
        if not model.negatives:
            sample = drawn_sample(facts, entities, RIVALS, generator, POWER)
            batch = replace(batch, sample=sample)
        if self._gradient is None:
            self._gradient = Gradient.like(model.tables)
        loss = model.loss.add_gradient(model.tables, batch, self._gradient)
        for part, told in zip(gradient, self._gradient, strict=True):
            model.backend.add_and_clear(told, part, weight)
        return weight * loss


def answerers(profile: Profile, num_relations: int) -> list[Entities]:
    """Who has answered for each relation, inverses among the `num_relations`: e is one of r's
    answers if (e, r⁻¹, ?) has been answered."""
    entities, inverses = profile.questions.astype(np.int64).T
    order = np.argsort(inverses ^ 1, kind="stable")
    bounds = np.searchsorted((inverses ^ 1)[order], np.arange(1, num_relations))
    return np.split(entities[order], bounds)


def told(
    teacher: TablePredictor, profile: Profile, places: Entities, among: Sequence[Entities]
) -> Facts:
    """The facts (k, 3) that the teacher tells of the questions at `places`: as many of each as have
    answered it, the best of `among`, which has the candidates of each relation."""
    parts = [
        part
        for relation, asked in _by_relation(profile, places)
        for part in _answered(teacher, profile, asked, among[relation])
    ]
    return np.concatenate([no_facts(), *parts]).astype(np.int32)


def _by_relation(profile: Profile, places: Entities) -> Iterator[tuple[int, Entities]]:
    """The places of each relation's questions, those with few answers first."""
    relations, counts = profile.questions[places, 1], profile.counts[places]
    order = np.lexsort([counts, relations])
    bounds = np.append(np.flatnonzero(np.diff(relations[order], prepend=-1)), len(places))
    for first, last in itertools.pairwise(bounds):
        part = places[order[first:last]]
        yield int(profile.questions[part[0], 1]), part


def _answered(
    teacher: TablePredictor, profile: Profile, places: Entities, candidates: Entities
) -> Iterator[Facts]:
    """Blocks of the facts that the best of the candidates make of the questions at `places`, which
    are of one relation: of each as many as have answered it, the best first."""
    rows = teacher.entity[torch.from_numpy(candidates).to(teacher.entity.device)]
    numbers = len(rows) if teacher.score.is_bilinear else rows.numel()
    for block in blocks_of(len(places), max(numbers, MOST_NUMBERS // BLOCK)):
        questions = profile.questions[places[block]]
        wanted = np.minimum(profile.counts[places[block]], len(rows))
        scores = teacher.score.candidates(teacher.queries(questions), rows)
        best = scores.topk(int(wanted.max()), dim=1).indices.cpu().numpy()
        taken = best[np.arange(best.shape[1]) < wanted[:, None]]
        yield np.column_stack([np.repeat(questions, wanted, axis=0), candidates[taken]])
