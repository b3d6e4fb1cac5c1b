"""The probability that an answer at its place in the list of a query is true.

    p = 1 / (1 + exp(-(w₀ + w₁·log odds + w₂·log rank + b_r)))

The place of an answer has two features without a scale (`lkge.store.answer_list`): its log odds in
the softmax of the list, and its log rank. w is the likeliest on held-out queries, under a normal
prior with the mean `PRIOR` and variance 1. b_r is the offset of a query relation, under a normal
prior with the mean 0 and variance 1: that of a relation with few held-out facts is near 0.

w₁ ≥ 0 and w₂ ≤ 0, so p never rises along a list. p is at most 1 - 1/(2n + 2) for n held-out facts.
"""

from dataclasses import field
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, FiniteFloat
from pydantic.dataclasses import dataclass

from lkge.store.answer_list import Features
from lkge.store.reliability import Reliability

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Count = Annotated[int, Field(ge=0)]

PRIOR = (-1.0, 0.0, -1.5)
"""The weights before any fact is held out: 0.27 for the first answer, 0.01 for the tenth."""
SIGNS = (0, 1, -1)
"""The sign that a weight may have; 0: any."""
MIN_FACTS = 10
"""With fewer held-out facts the prior is not left."""
STEPS, ENOUGH = 100, 1e-10
BOUND, HALVINGS = 16.0, 40
"""Offsets are between -BOUND and BOUND."""


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Calibration:
    """What p is computed with.

    facts        the number of held-out facts that it was fitted to; 0: it is the prior
    temperature  of the softmax of a list, for standardised scores
    weights      w₀, w₁, w₂
    relations    query relations that have an offset, ascending
    offsets      the offset of each
    reliability  what came of it on held-out queries; None if that was not measured
    """

    facts: Count = 0
    temperature: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    weights: tuple[FiniteFloat, FiniteFloat, FiniteFloat] = PRIOR
    relations: tuple[Count, ...] = field(default=())
    offsets: tuple[FiniteFloat, ...] = field(default=())
    reliability: Reliability | None = None

    def __post_init__(self) -> None:
        if len(self.relations) != len(self.offsets):
            raise ValueError(f"{len(self.relations)} relations have {len(self.offsets)} offsets")
        if list(self.relations) != sorted(set(self.relations)):
            raise ValueError("relations with an offset must ascend, each once")

    @property
    def is_known(self) -> bool:
        """Whether it was fitted to held-out facts."""
        return self.facts > 0

    def offset_of(self, relation: int) -> float:
        """b_r of a query relation; 0 if it had no held-out fact."""
        place = int(np.searchsorted(self.relations, relation))
        there = place < len(self.relations) and self.relations[place] == relation
        return self.offsets[place] if there else 0.0

    def plausibility(self, features: Features, relation: int) -> Doubles:
        """p of answers to a query with this relation, (k,)."""
        margins = inputs_of(features) @ np.array(self.weights) + self.offset_of(relation)
        return np.minimum(_logistic(margins), 1 - 1 / (2 * self.facts + 2))


UNKNOWN = Calibration()
"""Before enough facts were held out: the prior, by rank alone."""


class Examples(NamedTuple):
    """Answers in lists of held-out queries, each (m,): places, query relation, whether it is the
    held-out fact, and for how many answers it stands."""

    features: Features
    relations: Ints
    true: Mask
    weights: Doubles


def fitted(examples: Examples, facts: int, temperature: float) -> Calibration:
    """The likeliest calibration, given the examples of so many held-out facts."""
    if facts < MIN_FACTS:
        return UNKNOWN
    inputs = inputs_of(examples.features)
    weights = _pooled(inputs, examples)
    relations, groups = np.unique(examples.relations, return_inverse=True)
    offsets = _offsets(inputs @ weights, groups, len(relations), examples)
    first, second, third = weights.tolist()
    return Calibration(
        facts=facts,
        temperature=temperature,
        weights=(first, second, third),
        relations=tuple(relations.tolist()),
        offsets=tuple(offsets.tolist()),
    )


def inputs_of(features: Features) -> Doubles:
    """1, log odds and log rank of each place, (k, 3)."""
    return np.stack([np.ones_like(features.log_odds), features.log_odds, features.log_rank], axis=1)


def _pooled(inputs: Doubles, examples: Examples) -> Doubles:
    """The likeliest weights (3,) without offsets. A weight with the wrong sign becomes 0."""
    signs, free = np.array(SIGNS), np.ones(len(SIGNS), np.bool_)
    while True:
        weights = _newton(inputs * free, np.array(PRIOR) * free, examples)
        wrong = weights * signs < 0
        if not wrong.any():
            return weights
        free &= ~wrong


def _newton(inputs: Doubles, prior: Doubles, examples: Examples) -> Doubles:
    """The likeliest weights (3,) under a normal prior. A step that would raise the loss is halved.

    The loss is Σ count · (log(1 + exp m) - t·m) + |w - prior|² / 2, with margins m = inputs·w."""
    targets, counts = examples.true.astype(np.float64), examples.weights

    def loss(weights: Doubles) -> float:
        margins = inputs @ weights
        likelihood = counts @ (np.logaddexp(0, margins) - targets * margins)
        return float(likelihood + ((weights - prior) ** 2).sum() / 2)

    weights, now = prior, loss(prior)
    for _ in range(STEPS):
        expected = _logistic(inputs @ weights)
        slope = inputs.T @ (counts * (expected - targets)) + weights - prior
        curvature = (inputs * (counts * expected * (1 - expected))[:, None]).T @ inputs
        step = np.linalg.solve(curvature + np.eye(len(weights)), slope)
        while (new := loss(weights - step)) > now and np.abs(step).max() > ENOUGH:
            step = step / 2
        if now - new < ENOUGH:
            break
        weights, now = weights - step, new
    return weights


def _offsets(margins: Doubles, groups: Ints, size: int, examples: Examples) -> Doubles:
    """The likeliest offset of each group (size,) on top of the margins (m,) of the pooled curve.

    The slope of the loss rises with the offset, so its zero is found by halving an interval."""
    low, high = np.full(size, -BOUND), np.full(size, BOUND)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        residual = examples.weights * (_logistic(margins + middle[groups]) - examples.true)
        too_high = np.bincount(groups, residual, size) + middle > 0
        low, high = np.where(too_high, low, middle), np.where(too_high, middle, high)
    offsets: Doubles = (low + high) / 2
    return offsets


def _logistic(margins: Doubles) -> Doubles:
    return np.exp(-np.logaddexp(0, -margins))
