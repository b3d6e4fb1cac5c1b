"""Plausibility is a probability: the calibration is the likeliest one, and unsure of few facts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lkge.store.answer_list import Features
from lkge.store.calibration import MIN_FACTS, UNKNOWN, Calibration, Examples, fitted

RANKS = np.arange(1, 11)


def drawn(
    generator: np.random.Generator,
    size: int,
    weights: tuple[float, float, float] = (-0.5, 0.8, -0.4),
    offsets: tuple[float, ...] = (0.0,),
) -> Examples:
    """Examples that a calibration with these weights and offsets has drawn."""
    log_odds, log_rank = generator.normal(0, 2, size), np.log(generator.choice(RANKS, size))
    relations = generator.integers(0, len(offsets), size)
    inputs = np.stack([np.ones(size), log_odds, log_rank], axis=1)
    margins = inputs @ np.array(weights) + np.array(offsets)[relations]
    true = generator.random(size) < 1 / (1 + np.exp(-margins))
    return Examples(Features(log_odds, log_rank), relations, true, np.ones(size))


def places(log_odds: Any, log_rank: Any) -> Features:
    return Features(np.array(log_odds, float), np.array(log_rank, float))


def test_it_finds_the_weights_that_drew_the_examples() -> None:
    found = fitted(drawn(np.random.default_rng(0), 60_000), facts=1_000, temperature=2.0)
    assert found.weights == pytest.approx((-0.5, 0.8, -0.4), abs=0.06)
    assert (found.facts, found.temperature, found.relations) == (1_000, 2.0, (0,))
    assert found.offset_of(0) == pytest.approx(0, abs=0.05)


def test_each_relation_promises_what_happens() -> None:
    """Relations whose answers are true more or less often have offsets that say so."""
    generator, offsets = np.random.default_rng(0), (1.0, 0.0, -1.0)
    found = fitted(drawn(generator, 30_000, offsets=offsets), 1_000, 1.0)
    others = drawn(generator, 30_000, offsets=offsets)
    for relation in range(3):
        of_it = others.relations == relation
        features = Features(*(column[of_it] for column in others.features))
        given = found.plausibility(features, relation).mean()
        assert given == pytest.approx(others.true[of_it].mean(), abs=0.01)


def test_what_it_promises_happens() -> None:
    """Of other answers that it gives about p, about the share p is true."""
    generator = np.random.default_rng(1)
    found = fitted(drawn(generator, 20_000), 1_000, 1.0)
    others = drawn(generator, 20_000)
    given = found.plausibility(others.features, relation=0)
    for low in np.arange(0, 1, 0.2):
        inside = (given >= low) & (given < low + 0.2)
        assert others.true[inside].mean() == pytest.approx(given[inside].mean(), abs=0.04)


def test_weights_and_then_offsets_are_the_likeliest() -> None:
    """A step in any direction raises -log of likelihood and prior, which is written out here."""
    generator = np.random.default_rng(2)
    examples = drawn(generator, 300, offsets=(0.5, -0.5))._replace(
        weights=generator.choice([1.0, 3.0], 300)
    )
    found = fitted(examples, 50, 1.0)

    def loss(weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> float:
        odds, rank = examples.features
        margins = weights[0] + weights[1] * odds + weights[2] * rank + offsets[examples.relations]
        p = 1 / (1 + np.exp(-margins))
        likelihood = np.where(examples.true, np.log(p), np.log(1 - p)) @ examples.weights
        prior = (weights - np.array([-1.0, 0.0, -1.5])) ** 2
        return float(-likelihood + prior.sum() / 2 + (offsets**2).sum() / 2)

    weights, offsets, none = np.array(found.weights), np.array(found.offsets), np.zeros(2)
    for step in np.vstack([np.eye(3), -np.eye(3)]) / 100:
        assert loss(weights + step, none) > loss(weights, none)
    for step in np.vstack([np.eye(2), -np.eye(2)]) / 100:
        assert loss(weights, offsets + step) > loss(weights, offsets)


def test_a_relation_with_few_examples_is_near_the_pooled_curve() -> None:
    generator = np.random.default_rng(3)
    many = drawn(generator, 5_000)
    few = drawn(generator, 10)._replace(relations=np.ones(10, np.int64), true=np.ones(10, np.bool_))
    joined = Examples(
        Features(*(np.append(a, b) for a, b in zip(many.features, few.features, strict=True))),
        *(np.append(a, b) for a, b in zip(many[1:], few[1:], strict=True)),
    )
    found = fitted(joined, 1_000, 1.0)
    alone = fitted(many, 1_000, 1.0)
    assert 0 < found.offset_of(1) < 3
    assert found.offset_of(7) == 0
    assert found.weights == pytest.approx(alone.weights, abs=0.1)
    assert abs(found.offset_of(0)) < 0.1


def test_it_never_rises_along_a_list_even_if_the_examples_do() -> None:
    """Scores and ranks that speak against the true answers say nothing."""
    generator = np.random.default_rng(4)
    found = fitted(drawn(generator, 5_000, weights=(0.0, -1.0, 1.0)), 500, 1.0)
    assert found.weights[1:] == (0.0, 0.0)
    given = found.plausibility(places([3, 1, -2], np.log([1, 2, 3])), 0)
    assert (np.diff(given) <= 0).all()


def test_few_facts_do_not_leave_the_prior() -> None:
    examples = drawn(np.random.default_rng(5), 100)
    assert fitted(examples, MIN_FACTS - 1, 2.0) == UNKNOWN
    assert not UNKNOWN.is_known
    assert fitted(examples, MIN_FACTS, 2.0).is_known


def test_where_no_list_has_its_held_out_fact_every_answer_is_implausible() -> None:
    examples = drawn(np.random.default_rng(5), 5_000)
    found = fitted(examples._replace(true=np.zeros(5_000, np.bool_)), 250, 2.0)
    assert found.is_known
    assert found.plausibility(examples.features, 0).mean() < 0.001


def test_the_prior_is_never_sure_whatever_the_scores() -> None:
    given = UNKNOWN.plausibility(places([15, 15, -15], np.log([1, 10, 100])), relation=3)
    assert given == pytest.approx([0.2689, 0.0115, 0.00037], rel=0.02)


def test_no_number_is_surer_than_the_facts_allow() -> None:
    sure = Calibration(facts=10, weights=(50.0, 1.0, 0.0))
    assert sure.plausibility(places([15], [0]), 0)[0] == pytest.approx(1 - 1 / 22)


@pytest.mark.parametrize(
    "fields",
    [
        {"relations": (1,), "offsets": ()},
        {"relations": (2, 1), "offsets": (0.0, 0.0)},
        {"relations": (-1,), "offsets": (0.0,)},
        {"weights": (0.0, float("nan"), 0.0)},
        {"weights": (0.0, 0.0)},
        {"temperature": 0.0},
        {"facts": -1},
        {"slope": 1.0},
    ],
)
def test_impossible_calibrations_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Calibration(**fields)
