"""Honest numbers about a version: held-out facts that no model has trained on or selected by.

Every batch gives some; a sample of them is kept, so that each later version is asked about all that
came before it. Ranks are taken among everything that is known now; in a large graph, among a sample
of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, among, no_facts, with_inverses
from lkge.models.predictor import Predictor, View
from lkge.store.working import Rows

KEPT = 2_000
"""Held-out facts that a store keeps, at most."""
CANDIDATES = 20_000
"""Entities that an examined fact is ranked among, at most."""
Reciprocals = NDArray[np.float64]


def _no_versions() -> NDArray[np.int32]:
    return np.empty(0, dtype=np.int32)


@dataclass(frozen=True)
class Exam:
    """Facts (k, 3) without inverses, and the version that brought each, (k,)."""

    facts: Facts = field(default_factory=no_facts)
    since: NDArray[np.int32] = field(default_factory=_no_versions)

    def __len__(self) -> int:
        return len(self.facts)

    def without(self, facts: Facts) -> Exam:
        """All but these facts."""
        return self._at(~among(self.facts, facts))

    def grown(self, facts: Facts, version: int, generator: np.random.Generator) -> Exam:
        """These and the facts of a new version; a random sample where they are too many."""
        both = Exam(
            np.concatenate([self.facts, facts]),
            np.append(self.since, np.full(len(facts), version, dtype=np.int32)),
        )
        return both._at(np.sort(generator.permutation(len(both))[:KEPT]))

    def _at(self, places: NDArray[Any]) -> Exam:
        return Exam(self.facts[places], self.since[places])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """For a file of arrays; `from_arrays` is the inverse."""
        return {"facts": self.facts, "since": self.since}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Exam:
        """What `arrays` gave."""
        return cls(np.array(arrays["facts"]), np.array(arrays["since"]))


def candidates(facts: Facts, num_entities: int, generator: np.random.Generator) -> Rows:
    """Whom the facts are ranked among: all, or a sample together with their own entities."""
    drawn = (
        np.arange(num_entities)
        if num_entities <= CANDIDATES
        else generator.choice(num_entities, CANDIDATES, replace=False, shuffle=False)
    )
    ids = np.union1d(drawn, facts[:, (0, 2)].ravel()).astype(np.int64)
    return Rows(ids, len(ids))


def reciprocal_ranks(
    predictor: Predictor, rows: Rows, facts: Facts, answers: KnownFacts
) -> Reciprocals:
    """1/rank of each fact, the mean over its two questions, (k,). `predictor` knows the entities of
    `rows` only, under their new numbers."""
    if not len(facts):
        return np.empty(0)
    known = KnownFacts.build([rows.known(answers, facts)])
    everyone = View(len(rows), until=0)
    ranks = predictor.ranks(with_inverses(rows.local(facts)), [everyone], known)
    reciprocals: Reciprocals = (1 / ranks[:, 0]).reshape(2, -1).mean(axis=0)
    return reciprocals


def mean_by_version(exam: Exam, reciprocals: Reciprocals) -> dict[str, float]:
    """The MRR of the facts of each version: a row of the matrix."""
    return {
        str(version): float(reciprocals[exam.since == version].mean())
        for version in np.unique(exam.since)
    }


def mean_drift(before: torch.Tensor, after: torch.Tensor) -> float:
    """The mean of 1 - cosine between rows before and after, (k, d) both; zero where k is."""
    if not len(before):
        return 0.0
    cosine = torch.nn.functional.cosine_similarity(before.double(), after.double(), dim=1)
    return float((1 - cosine).mean())
