"""From scores to plausibility: Platt's logistic curve through held-out facts and corrupted ones.

    p(s) = 1 / (1 + exp(-(a·s + b))),

a and b by maximum likelihood, with Platt's softened targets (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), so
that few facts do not make it certain. A half means: as plausible true as made up, where one true
fact stands beside one corrupted one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

STEPS, ENOUGH = 100, 1e-10
RIDGE = 1e-6
"""A little of the identity, so that scores that are all alike have a solution too."""


class Curve(NamedTuple):
    """p(s) = 1 / (1 + exp(-(slope·s + offset)))."""

    slope: float
    offset: float

    def plausibility(self, scores: Floats) -> NDArray[np.float64]:
        """p(s), element by element, within 0 and 1."""
        return _logistic(self.slope * scores.astype(np.float64) + self.offset)


UNKNOWN = Curve(0.0, 0.0)
"""Before any fact was held out, and where scores say nothing: all is as likely as not."""


def calibrated(true: Floats, corrupted: Floats) -> Curve:
    """The curve through scores of facts that hold, (k,), and of corrupted ones, (n,). It never
    falls: scores that speak against the facts that hold say nothing."""
    if not len(true) or not len(corrupted):
        return UNKNOWN
    scores = np.append(true, corrupted).astype(np.float64)
    centre, scale = scores.mean(), scores.std() or 1.0
    inputs = np.stack([(scores - centre) / scale, np.ones_like(scores)], axis=1)
    targets = np.repeat(
        [(len(true) + 1) / (len(true) + 2), 1 / (len(corrupted) + 2)], [len(true), len(corrupted)]
    )
    slope, offset = _newton(inputs, targets)
    if slope <= 0:
        return UNKNOWN
    return Curve(float(slope / scale), float(offset - slope * centre / scale))


def _newton(inputs: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights (2,) of the logistic regression of `targets` (n,) on `inputs` (n, 2); a step that
    would raise the loss is halved."""
    weights = np.zeros(inputs.shape[1])
    loss = _loss(inputs @ weights, targets)
    for _ in range(STEPS):
        expected = _logistic(inputs @ weights)
        slope = inputs.T @ (expected - targets)
        curvature = (inputs * (expected * (1 - expected))[:, None]).T @ inputs
        step = np.linalg.solve(curvature + RIDGE * np.eye(len(weights)), slope)
        while (new := _loss(inputs @ (weights - step), targets)) > loss and np.abs(step).max() > 0:
            step = step / 2
        weights = weights - step
        if loss - new < ENOUGH:
            break
        loss = new
    return weights


def _loss(margins: NDArray[np.float64], targets: NDArray[np.float64]) -> float:
    """-Σ t·log p + (1 - t)·log(1 - p)."""
    return float((np.logaddexp(0, margins) - targets * margins).sum())


def _logistic(margins: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-np.logaddexp(0, -margins))
