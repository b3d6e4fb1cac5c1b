"""The hold-out set: facts that are used neither for training nor for validation.

Every batch adds some, and a sample is kept, so that each version is evaluated on facts of all
earlier ones. Ranks are filtered by all known facts; in a large graph they are taken among a sample
of the entities.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, among, no_facts, with_inverses
from lkge.models.predictor import Predictor, View
from lkge.store.subgraph import Subgraph

Reciprocals = NDArray[np.float64]


@dataclass(frozen=True)
class HoldOut:
    """Facts (k, 3) without inverses, and the version that brought each, (k,)."""

    facts: Facts = field(default_factory=no_facts)
    since: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.facts)

    def without(self, facts: Facts) -> Self:
        """All but these facts."""
        return self._at(~among(self.facts, facts))

    def grown(self, facts: Facts, version: int, generator: np.random.Generator, size: int) -> Self:
        """These and the facts of a new version; a random sample of `size` if there are more."""
        both = type(self)(
            np.concatenate([self.facts, facts]),
            np.append(self.since, np.full(len(facts), version, dtype=np.int32)),
        )
        return both._at(np.sort(generator.permutation(len(both))[:size]))

    def _at(self, places: NDArray[Any]) -> Self:
        return type(self)(self.facts[places], self.since[places])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of a file; `from_arrays` is the inverse."""
        return {"facts": self.facts, "since": self.since}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Inverse of `arrays`."""
        return cls(np.array(arrays["facts"]), np.array(arrays["since"]))


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


def reciprocal_ranks(
    predictor: Predictor, candidates: Subgraph, facts: Facts, answers: KnownFacts
) -> Reciprocals:
    """1/rank of each fact, the mean over its two queries, (k,). `predictor` has the rows of
    `candidates` only, under their local ids."""
    if not len(facts):
        return np.empty(0)
    known = KnownFacts.build([candidates.known_facts(answers, facts)])
    everyone = View(len(candidates), until=0)
    ranks = predictor.ranks(with_inverses(candidates.local(facts)), [everyone], known)
    reciprocals: Reciprocals = (1 / ranks[:, 0]).reshape(2, -1).mean(axis=0)
    return reciprocals


def mean_by_version(hold_out: HoldOut, reciprocals: Reciprocals) -> dict[str, float]:
    """The MRR of the hold-out facts of each version."""
    return {
        str(version): float(reciprocals[hold_out.since == version].mean())
        for version in np.unique(hold_out.since)
    }


def mean_drift(before: torch.Tensor, after: torch.Tensor) -> float:
    """The mean of 1 - cosine between rows before and after, both (k, d); zero if k is zero."""
    if not len(before):
        return 0.0
    cosine = torch.nn.functional.cosine_similarity(before.double(), after.double(), dim=1)
    return float((1 - cosine).mean())
