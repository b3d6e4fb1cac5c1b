"""Training batches: shuffled facts with corruptions or candidates, drawn from a given generator."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from lkge.data.known_facts import pack, starts_run
from lkge.data.snapshots import Facts


@dataclass(frozen=True)
class Sample:
    """k of all entities as candidates.

    entities    (k,) int64, distinct and sorted
    importance  (k,) float32: the number of entities that each candidate represents
    """

    entities: npt.NDArray[np.int64]
    importance: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Batch:
    """B facts with K corruptions each.

    facts           (B, 3)
    corruptions     (B, K): the replacing entities
    corrupt_object  (B, K): True if the object is replaced, False if the subject is
    shared_by       g: every g consecutive facts form a group (the last group may be smaller). If
                    g > 1, the facts of a group have the same corruptions, all of objects.
    sample          the candidates of a batch with K = 0; None means all entities. The entities of
                    the facts are always in the sample.
    retracts        whether the corruptions are the objects of retracted facts
    """

    facts: Facts
    corruptions: npt.NDArray[np.int32]
    corrupt_object: npt.NDArray[np.bool_]
    shared_by: int = 1
    sample: Sample | None = None
    retracts: bool = False

    def __len__(self) -> int:
        return len(self.facts)

    def singly(self) -> Iterator[Self]:
        """One batch of size 1 for each fact."""
        for b in range(len(self)):
            one = slice(b, b + 1)
            corruptions, sides = self.corruptions[one], self.corrupt_object[one]
            yield type(self)(self.facts[one], corruptions, sides, sample=self.sample)


def batches(
    facts: Facts,
    size: int,
    negatives: int,
    num_entities: int,
    generator: np.random.Generator,
    shared_by: int = 1,
) -> Iterator[Batch]:
    """One epoch of contrastive training: every fact once, in random order. A corruption replaces
    the subject or the object, with probability ½ each, by an entity drawn uniformly from all.

    With `shared_by` > 1, so many consecutive facts share their corruptions, and only objects are
    replaced: the scores of a group are one matrix product. Subjects are not neglected, because the
    subject of a fact is the object of its inverse, which is trained too.
    """
    order = generator.permutation(len(facts))
    for start in range(0, len(facts), size):
        chosen = facts[order[start : start + size]]
        groups = -(-len(chosen) // shared_by)
        drawn = generator.integers(0, num_entities, (groups, negatives), dtype=np.int32)
        if shared_by > 1:
            corruptions = drawn[np.arange(len(chosen)) // shared_by]
            yield Batch(chosen, corruptions, np.ones(corruptions.shape, dtype=np.bool_), shared_by)
        else:
            sides = generator.integers(0, 2, drawn.shape, dtype=np.bool_)
            yield Batch(chosen, drawn, sides)


def query_batches(
    facts: Facts,
    size: int,
    generator: np.random.Generator,
    num_entities: int = 0,
    share: float = 1.0,
    *,
    all_below: int = 0,
    most: int = 0,
    represented: int = 0,
) -> Iterator[Batch]:
    """One epoch of softmax training: every fact once, no corruptions. The queries (s, r, ?) come
    in random order. All facts of a query are in the same batch, so a batch has about `size` facts.
    `share`, `all_below`, `most` and `represented` are those of `sample_candidates`.
    """
    _, query, counts = np.unique(
        pack(facts[:, 0], facts[:, 1]), return_inverse=True, return_counts=True
    )
    order = generator.permutation(len(counts))
    before = np.empty_like(counts)
    before[order] = np.cumsum(counts[order]) - counts[order]
    position = before[query]
    given = np.argsort(position, kind="stable")
    for part in np.split(given, np.flatnonzero(starts_run(position[given] // size)))[1:]:
        none = np.empty((len(part), 0), dtype=np.int32)
        sample = sample_candidates(
            facts[part], num_entities, share, generator,
            all_below=all_below, most=most, represented=represented,
        )  # fmt: skip
        yield Batch(facts[part], none, none.astype(np.bool_), sample=sample)


def sample_candidates(
    facts: Facts,
    num_entities: int,
    share: float,
    generator: np.random.Generator,
    power: float = 1.0,
    *,
    all_below: int = 0,
    most: int = 0,
    represented: int = 0,
) -> Sample | None:
    """The entities of the facts, and a random share of all entities, at most `most` if that is not
    zero. None, which stands for all entities, if `share` is 1 and `most` is zero, or if there are
    at most `all_below` entities.

    Objects are targets of the loss; subjects are candidates because many score functions rank the
    subject of a query high. The importance of both is 1. If d of the n other entities were drawn,
    the importance of each is (n / d)^power.

    The entities that can be drawn may be a random part of more, which are `represented`: then all
    limits and importances are those of a sample of these.
    """
    total = represented or num_entities
    is_all = (share >= 1 and not most) or total <= all_below
    if is_all and total == num_entities:
        return None
    size = total if is_all else math.ceil(share * total)
    size = min(size, most) if most and not is_all else size
    size = min(size, num_entities)
    own = np.zeros(num_entities, dtype=np.bool_)
    own[facts[:, (0, 2)]] = True
    chosen = own.copy()
    chosen[generator.choice(num_entities, size, replace=False)] = True
    num_own = int(own.sum())
    others, drawn = total - num_own, int(chosen.sum()) - num_own
    importance = np.where(own[chosen], 1.0, (others / max(1, drawn)) ** power)
    return Sample(np.flatnonzero(chosen), importance.astype(np.float32))


def retraction_batches(
    facts: Facts, size: int, negatives: int, num_entities: int, generator: np.random.Generator
) -> Iterator[Batch]:
    """One epoch over retracted facts. Each retracted (s, r, o) becomes a fact (s, r, x), x drawn
    uniformly, and o is the entity of all its corruptions: training ranks o below x."""
    order = generator.permutation(len(facts))
    for start in range(0, len(facts), size):
        retracted = facts[order[start : start + size]]
        random_facts = retracted.copy()
        random_facts[:, 2] = generator.integers(0, num_entities, len(retracted), dtype=np.int32)
        shape = (len(retracted), negatives)
        yield Batch(
            facts=random_facts,
            corruptions=np.ascontiguousarray(np.broadcast_to(retracted[:, 2:], shape)),
            corrupt_object=np.ones(shape, dtype=np.bool_),
            retracts=True,
        )
