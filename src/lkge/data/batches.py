"""Shuffled batches with corrupted facts, from an explicit generator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lkge.data.answers import pack, starts_run
from lkge.data.snapshots import Facts

FEW = 5000
"""Up to so many entities are all candidates: they cost little."""


@dataclass(frozen=True)
class Sample:
    """Some of all entities, (k,), each once and in order, and for how many each stands, (k,)."""

    entities: npt.NDArray[np.int64]
    standing: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """B facts, each with K corruptions.

    `corruptions` (B, K) are the entities put in; `corrupt_object` (B, K) tells on which side. The
    facts are in groups of `sharing`, the last one what remains; where that is above 1, a group has
    the same corruptions, all of objects. Where there are none, all entities are candidates, or
    those of a `sample`, the entities of the facts among them.
    """

    facts: Facts
    corruptions: npt.NDArray[np.int32]
    corrupt_object: npt.NDArray[np.bool_]
    sharing: int = 1
    sample: Sample | None = None

    def __len__(self) -> int:
        return len(self.facts)

    def singly(self) -> Iterator[Batch]:
        """Each fact as a batch of its own."""
        for b in range(len(self)):
            one = slice(b, b + 1)
            yield Batch(
                self.facts[one],
                self.corruptions[one],
                self.corrupt_object[one],
                sample=self.sample,
            )


def batches(
    facts: Facts,
    size: int,
    negatives: int,
    num_entities: int,
    generator: np.random.Generator,
    sharing: int = 1,
) -> Iterator[Batch]:
    """One epoch: every fact once, in random order; each corruption replaces subject or object
    with probability ½ by an entity drawn uniformly from all of E_i.

    With `sharing` above 1 so many facts in a row share their corruptions, and these replace objects
    alone: the scores of a group are one matrix product, and the subject of a fact is the object of
    its inverse, which is learned too.
    """
    order = generator.permutation(len(facts))
    for start in range(0, len(facts), size):
        chosen = facts[order[start : start + size]]
        groups = -(-len(chosen) // sharing)
        drawn = generator.integers(0, num_entities, (groups, negatives), dtype=np.int32)
        if sharing > 1:
            corruptions = drawn[np.arange(len(chosen)) // sharing]
            yield Batch(chosen, corruptions, np.ones(corruptions.shape, dtype=np.bool_), sharing)
        else:
            sides = generator.integers(0, 2, drawn.shape, dtype=np.bool_)
            yield Batch(chosen, drawn, sides)


def question_batches(
    facts: Facts,
    size: int,
    generator: np.random.Generator,
    num_entities: int = 0,
    share: float = 1.0,
) -> Iterator[Batch]:
    """One epoch without corruptions: every fact once, questions (s, r, ·) in random order, and all
    facts that ask one in the same batch. A batch has about `size` facts: none divides a question.
    Its candidates are a share of so many entities.
    """
    _, asked, counts = np.unique(
        pack(facts[:, 0], facts[:, 1]), return_inverse=True, return_counts=True
    )
    order = generator.permutation(len(counts))
    before = np.empty_like(counts)
    before[order] = np.cumsum(counts[order]) - counts[order]
    place = before[asked]
    given = np.argsort(place, kind="stable")
    for part in np.split(given, np.flatnonzero(starts_run(place[given] // size)))[1:]:
        none = np.empty((len(part), 0), dtype=np.int32)
        sample = drawn_sample(facts[part], num_entities, share, generator)
        yield Batch(facts[part], none, none.astype(np.bool_), sample=sample)


def drawn_sample(
    facts: Facts,
    num_entities: int,
    share: float,
    generator: np.random.Generator,
    power: float = 1.0,
) -> Sample | None:
    """A share of all entities, drawn at random, and those of the facts; None, which is all, where
    these are few or all are wanted.

    The objects of the facts must be there, and the subjects should: many a score likes to answer a
    question with its own subject. These stand for themselves, and one of d that were drawn from n
    others for (n / d)^power.
    """
    if share >= 1 or num_entities <= FEW:
        return None
    own = np.zeros(num_entities, dtype=np.bool_)
    own[facts[:, (0, 2)]] = True
    chosen = own.copy()
    chosen[generator.choice(num_entities, math.ceil(share * num_entities), replace=False)] = True
    named = int(own.sum())
    others, drawn = num_entities - named, int(chosen.sum()) - named
    standing = np.where(own[chosen], 1.0, (others / max(1, drawn)) ** power)
    return Sample(np.flatnonzero(chosen), standing.astype(np.float32))


def refutations(
    facts: Facts, size: int, negatives: int, num_entities: int, generator: np.random.Generator
) -> Iterator[Batch]:
    """One epoch over facts that no longer hold: each (s, r, o) is all the corruptions of a fact
    (s, r, x), x drawn uniformly, so that o must lie farther from (s, r) than anything else."""
    order = generator.permutation(len(facts))
    for start in range(0, len(facts), size):
        withdrawn = facts[order[start : start + size]]
        stand_ins = withdrawn.copy()
        stand_ins[:, 2] = generator.integers(0, num_entities, len(withdrawn), dtype=np.int32)
        shape = (len(withdrawn), negatives)
        yield Batch(
            facts=stand_ins,
            corruptions=np.ascontiguousarray(np.broadcast_to(withdrawn[:, 2:], shape)),
            corrupt_object=np.ones(shape, dtype=np.bool_),
        )
