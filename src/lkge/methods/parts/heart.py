"""Parameters that know facts by heart.

A model that answers well was stopped early, and has not learned every fact: up to a fifth of all
that it would tell is wrong (`scripts/told.py`). To tell them later a copy of its tables is taught
on, until each question (h, r, ?) is answered with its facts before all others who ever answered for
r:

    L = Σ over (h, r, t) of  -log softmax over e ∈ A(r) of f(h, r, e), at t.

A(r) is small beside all entities, and so is the time that this takes beside that of learning. The
score need not be the model's, as long as this is matrix products; tables of their own begin at
random then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from lkge.backends import Backend
from lkge.backends.torch_softmax import blocks_of
from lkge.data.answers import pack
from lkge.data.snapshots import Facts, among, with_inverses
from lkge.methods.parts.profile import Profile
from lkge.methods.parts.retelling import Entities, answerers, told
from lkge.models.parameters import Parameters
from lkge.models.predictor import TablePredictor
from lkge.models.scores import Bilinear

REHEARSED = 1
"""Old questions that are learned again beside new facts, at most, for each of these."""
PASSES, PASSES_APART, FEWEST_STEPS = 6, 16, 300
"""How often each fact is learned, in rows that begin as the model's and in others; more often where
that would be fewer steps."""
SPREAD = 0.1
"""The standard deviation of rows that begin at random."""
LEARNING_RATE = 0.1
KNOWN = 0.1
"""A question none of whose candidates is expected more often, or less often, than it answers by so
much is known."""
EPSILON = 0.1
"""Added to the squared gradients: what has hardly a gradient hardly moves."""


@dataclass(frozen=True)
class Heart:
    """Tables that know the facts of a profile by heart. `apart`: the score is not the model's."""

    score: Bilinear
    tables: Parameters
    backend: Backend
    apart: bool = False

    def told(self, profile: Profile, places: Entities) -> Facts:
        """The facts (k, 3) of the questions at these places of the profile, as far as known."""
        teller = TablePredictor.of(self.tables, self.score, self.backend)
        return told(teller, profile, places, answerers(profile, len(self.tables.relation)))

    def with_facts(
        self, facts: Facts, tables: Parameters, profile: Profile, generator: np.random.Generator
    ) -> Heart:
        """That which also knows new facts; what it has no rows for begins as in `tables`, which are
        the model's, or at random. Some of the old questions, which are in the profile, are learned
        again, so that it keeps them."""
        new, known = with_inverses(facts), len(profile.counts)
        places = generator.choice(known, min(known, REHEARSED * len(new)), replace=False)
        lesson = np.concatenate([self.told(profile, np.sort(places)), new])
        begun = self.tables.grown_to(self._drawn(tables, generator) if self.apart else tables)
        return self._taught(lesson, begun, profile.with_facts(facts), generator)

    def without(self, facts: Facts, profile: Profile, generator: np.random.Generator) -> Heart:
        """That which no longer tells facts of the profile: their questions are learned again with
        what else answers them."""
        gone = with_inverses(facts)
        asked, changed = (pack(each[:, 0], each[:, 1]) for each in (profile.questions, gone))
        left = self.told(profile, np.flatnonzero(np.isin(asked, changed)))
        return self._taught(left[~among(left, gone)], self.tables, profile, generator)

    def _taught(
        self, facts: Facts, tables: Parameters, profile: Profile, generator: np.random.Generator
    ) -> Heart:
        candidates = answerers(profile, len(tables.relation))
        passes = PASSES_APART if self.apart else PASSES
        taught = learned_by_heart(
            self.score, tables, facts, candidates, generator, self.backend, passes
        )
        return replace(self, tables=taught)

    def _drawn(self, like: Parameters, generator: np.random.Generator) -> Parameters:
        """As many rows from N(0, SPREAD²), as wide as these tables."""
        width = self.tables.entity.shape[1]

        def draw(table: Tensor) -> Tensor:
            rows = generator.standard_normal((len(table), width), dtype=np.float32)
            return torch.from_numpy(SPREAD * rows).to(table.device)

        return like.map(draw)


@dataclass(frozen=True)
class Lesson:
    """Questions of one relation: who asks, (q,), who may answer, (a,), where the facts are in that
    matrix, rows (k,) and columns (k,), and how many are in each row, (q, 1)."""

    relation: int
    heads: Tensor
    candidates: Tensor
    rows: Tensor
    columns: Tensor
    counts: Tensor


def learned_by_heart(
    score: Bilinear,
    tables: Parameters,
    facts: Facts,
    candidates: Sequence[Entities],
    generator: np.random.Generator,
    backend: Backend,
    passes: int = PASSES,
) -> Parameters:
    """A copy of the tables that has learned the facts (k, 3), inverses among them, by heart: each
    beside the candidates of its relation, which are in order, its answer among them. A lesson that
    is all known is left out of the next pass."""
    taught, sums = tables.clone(), tables.map(torch.zeros_like)
    lessons = lessons_of(facts, candidates, tables.entity.device)
    known: set[int] = set()
    for _ in range(max(passes, math.ceil(FEWEST_STEPS / max(1, len(lessons))))):
        due = [place for place in generator.permutation(len(lessons)) if place not in known]
        known = {place for place in due if not _learn(score, taught, sums, lessons[place], backend)}
    return taught


def lessons_of(
    facts: Facts, candidates: Sequence[Entities], device: torch.device | str = "cpu"
) -> list[Lesson]:
    """The questions that facts answer, by relation, in blocks; a fact that is there twice is
    learned once."""
    ordered = np.unique(facts[:, (1, 0, 2)], axis=0)
    bounds = np.append(np.flatnonzero(np.diff(ordered[:, 0], prepend=-1)), len(ordered))
    return [
        lesson
        for first, last in itertools.pairwise(bounds)
        for lesson in _blocks(ordered[first:last], candidates[ordered[first, 0]], device)
    ]


def _blocks(part: Facts, among: Entities, device: torch.device | str) -> list[Lesson]:
    """The lessons of one relation; its facts (k, 3) have it first, and are in order."""
    heads, rows = np.unique(part[:, 1], return_inverse=True)
    columns, candidates = np.searchsorted(among, part[:, 2]), torch.from_numpy(among).to(device)
    lessons = []
    for block in blocks_of(len(heads), len(among)):
        first, last = np.searchsorted(rows, (block.start, block.stop))
        numbers = torch.from_numpy(rows[first:last] - block.start).to(device)
        lessons.append(
            Lesson(
                int(part[0, 0]),
                torch.from_numpy(heads[block]).long().to(device),
                candidates,
                numbers,
                torch.from_numpy(columns[first:last]).to(device),
                torch.bincount(numbers)[:, None].float(),
            )
        )
    return lessons


def _learn(
    score: Bilinear, tables: Parameters, sums: Parameters, lesson: Lesson, backend: Backend
) -> bool:
    """One step of Adagrad on the questions that are not known yet; whether there are any.

    With c(h, r) facts each, ∂L/∂f(h, r, e) = c(h, r)·p(e | h, r) - [e is an answer].
    """
    heads, relation = lesson.heads, lesson.heads.new_full((1,), lesson.relation)
    asking, between = tables.entity.index_select(0, heads), tables.relation[relation]
    answering = tables.entity.index_select(0, lesson.candidates)
    queries = score.compose(asking, between)
    slopes = score.candidates(queries, answering).softmax(dim=1).mul_(lesson.counts)
    slopes[lesson.rows, lesson.columns] -= 1
    lowest, highest = slopes.aminmax(dim=1)
    unknown = torch.maximum(highest, -lowest).gt(KNOWN).nonzero().squeeze(1)
    if not len(unknown):
        return False
    slopes, asking, queries = (each.index_select(0, unknown) for each in (slopes, asking, queries))
    flow = slopes @ answering
    for table, total, rows, gradient in (
        (tables.entity, sums.entity, lesson.candidates, slopes.T @ queries),
        (tables.entity, sums.entity, heads[unknown], score.towards(between, flow)),
        (
            *(tables.relation, sums.relation, relation),
            score.towards(asking, flow).sum(dim=0, keepdim=True),
        ),
    ):
        backend.adagrad_rows(table, gradient, total, rows, LEARNING_RATE, EPSILON)
    return True
