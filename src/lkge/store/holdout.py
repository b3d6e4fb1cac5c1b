"""The hold-out set: facts that are used neither for training nor for validation.

Every batch adds some, and a part is kept, so that each version is evaluated on facts of all earlier
ones. What is kept is stratified by age: no age class displaces another, and within a class no batch
displaces another. Ranks are filtered by all known facts; in a large graph they are taken among a
sample of the entities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from lkge.data.names import require_fit
from lkge.data.snapshots import Facts, among, no_facts
from lkge.store.subgraph import Subgraph

if TYPE_CHECKING:
    import torch

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

TOUCHED_SHARE = 0.25
"""The share of a full set that is first filled with facts of touched entities."""
RETRACTED = "retracted."
"""Prefix of the arrays of tracked retracted facts in the file of the hold-out set."""


def _no_values() -> NDArray[np.float64]:
    return np.empty((0, 2))


@dataclass(frozen=True)
class HoldOut:
    """Facts without inverses and, for each, what is compared from version to version.

    facts      (k, 3)
    since      (k,)   the version that brought it
    entities   (k,)   the number of entities when it was first ranked; 0: it was never ranked
    baseline   (k, 2) 1/rank and Hits@10 among these entities, means over both queries, that later
                      versions are compared with; nan: never ranked
    last       (k, 2) the same in the last version
    settled    (k,)   whether all known facts were trained on since it came
    """

    facts: Facts = field(default_factory=no_facts)
    since: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    entities: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    baseline: NDArray[np.float64] = field(default_factory=_no_values)
    last: NDArray[np.float64] = field(default_factory=_no_values)
    settled: Mask = field(default_factory=lambda: np.empty(0, np.bool_))

    def __len__(self) -> int:
        return len(self.facts)

    @classmethod
    def unranked(cls, facts: Facts, version: int) -> Self:
        """Facts of a version that were never ranked."""
        since = np.full(len(facts), version, dtype=np.int32)
        return cls._never_ranked(facts, since)

    @classmethod
    def _never_ranked(cls, facts: Facts, since: NDArray[np.int32]) -> Self:
        unknown = np.full((len(facts), 2), np.nan)
        settled = np.zeros(len(facts), np.bool_)
        return cls(facts, since, np.zeros(len(facts), np.int64), unknown, unknown.copy(), settled)

    def without(self, facts: Facts) -> Self:
        """All but these facts."""
        return self.at(~among(self.facts, facts))

    def joined(self, other: Self) -> Self:
        """These and those of another set."""
        mine, theirs = self.arrays(), other.arrays()
        return type(self)(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def grown(
        self,
        facts: Facts,
        version: int,
        generator: np.random.Generator,
        size: int,
        touched: Ints | None = None,
    ) -> Self:
        """These and the facts of a new version. If there are more than `size`, a part of each age
        class; facts of the entities `touched` come first, up to a share of the places."""
        both = self.joined(self.unranked(facts, version))
        if len(both) <= size:
            return both
        first = generator.permutation(np.flatnonzero(both.has_entity(touched)))
        kept = first[: int(TOUCHED_SHARE * size)]
        rest = np.setdiff1d(np.arange(len(both)), kept)
        chosen = _stratified(both.since[rest], version, generator, size - len(kept))
        return both.at(np.sort(np.concatenate([kept, rest[chosen]])))

    def has_entity(self, entities: Ints | None) -> Mask:
        """For each fact whether its subject or object is one of `entities`, (k,)."""
        wanted = np.empty(0, np.int64) if entities is None else entities
        found = np.isin(self.facts[:, (0, 2)], wanted)
        return found[:, 0] | found[:, 1]

    def at(self, places: NDArray[Any]) -> Self:
        """The facts at some places."""
        return type(self)(**{name: array[places] for name, array in self.arrays().items()})

    def with_values(self, **arrays: NDArray[Any]) -> Self:
        """The same facts with other values."""
        return replace(self, **arrays)

    def arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The arrays of a file; `from_arrays` is the inverse."""
        names = ("facts", "since", "entities", "baseline", "last", "settled")
        return {f"{prefix}{name}": getattr(self, name) for name in names}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Self:
        """Inverse of `arrays`. Older files have only `facts` and `since`, or nothing of a prefix:
        then nothing was ranked yet; or all but `settled`: then all are."""
        found = {name: np.array(arrays[name]) for name in arrays if name.startswith(prefix)}
        found = {n.removeprefix(prefix): a for n, a in found.items()}
        if "facts" not in found:
            return cls()
        facts, since = found["facts"], found["since"]
        unranked = cls._never_ranked(facts, since)
        found.setdefault("settled", np.ones(len(facts), np.bool_))
        for name, array in unranked.arrays().items():
            shape = np.shape(found.get(name, array))
            require_fit(shape == array.shape, f"{name} of shape {shape}, not {array.shape}")
        return cls(**{name: found.get(name, a) for name, a in unranked.arrays().items()})


def age_class(since: NDArray[np.int32], version: int) -> Ints:
    """The class of the age a = version - since of each fact, (k,): ⌊log₂(a + 1)⌋. Class c has the
    ages from 2ᶜ - 1 to 2ᶜ⁺¹ - 2."""
    ages = np.maximum(version - since.astype(np.int64), 0)
    classes: Ints = np.floor(np.log2(ages + 1)).astype(np.int64)
    return classes


def age_label(number: int) -> str:
    """The ages of a class in words: "0", "1-2", "3-6", …"""
    youngest, oldest = (1 << number) - 1, (2 << number) - 2
    return str(youngest) if youngest == oldest else f"{youngest}-{oldest}"


def _stratified(
    since: NDArray[np.int32], version: int, generator: np.random.Generator, size: int
) -> Ints:
    """The places of `size` facts: equal shares of the age classes and, within a class, of the
    batches. What a small class or batch leaves free goes to the others."""
    classes = age_class(since, version)
    numbers, counts = np.unique(classes, return_counts=True)
    chosen = []
    for number, share in zip(numbers, _shares(counts, size), strict=True):
        members = generator.permutation(np.flatnonzero(classes == number))
        batches, sizes = np.unique(since[members], return_counts=True)
        for batch, part in zip(batches, _shares(sizes, int(share)), strict=True):
            chosen.append(members[since[members] == batch][:part])
    return np.concatenate([np.empty(0, np.int64), *chosen])


def _shares(counts: Ints, size: int) -> Ints:
    """`size` places for groups of these sizes: equal shares, and no group gets more than it has.
    The first groups, which are the youngest classes or the oldest batches, get what is left."""
    shares = np.zeros(len(counts), np.int64)
    while size > 0 and (open_ := np.flatnonzero(shares < counts)).size:
        each, left = divmod(size, len(open_))
        wanted = each + (np.arange(len(open_)) < left)
        given = np.minimum(wanted, counts[open_] - shares[open_])
        shares[open_] += given
        size -= int(given.sum())
    return shares


def sample_candidates(
    facts: Facts,
    num_entities: int,
    generator: np.random.Generator,
    size: int,
    removed: NDArray[np.int64] | tuple[()] = (),
) -> Subgraph:
    """The entities that facts are ranked among: all, or a sample and the entities of the facts;
    none that was removed."""
    drawn = np.arange(num_entities)
    if num_entities > size:
        drawn = generator.choice(num_entities, size, replace=False, shuffle=False)
    ids = np.setdiff1d(np.union1d(drawn, facts[:, (0, 2)].ravel()), removed).astype(np.int64)
    return Subgraph(ids, len(ids))


def mean_drift(before: torch.Tensor, after: torch.Tensor) -> float:
    """The mean of 1 - cosine between rows before and after, both (k, d); zero if k is zero."""
    if not len(before):
        return 0.0
    import torch

    cosine = torch.nn.functional.cosine_similarity(before.double(), after.double(), dim=1)
    return float((1 - cosine).mean())
