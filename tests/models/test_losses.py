"""Losses by hand."""

from __future__ import annotations

import math

import pytest
import torch

from lkge.models.losses import margin_loss, sampled_softmax_loss


def test_negatives_are_averaged_before_the_hinge_and_facts_after_it() -> None:
    positive = torch.tensor([-1.0, -1.0])
    negatives = torch.tensor([[-2.0, -10.0], [-2.0, -3.0]])
    # first fact: 3 - 6 + 1 < 0; second fact: 3 - 2.5 + 1 = 1.5
    assert margin_loss(positive, negatives, 3.0).item() == pytest.approx(0.75)


def test_a_better_positive_lowers_the_loss() -> None:
    negatives = torch.tensor([[-2.0]])
    worse, better = (margin_loss(torch.tensor([s]), negatives, 4.0).item() for s in (-3.0, -1.0))
    assert (worse, better) == (5.0, 3.0)


NEGATIVES = torch.tensor([[0.0, 1.0, 3.0]])
WEIGHTS = [1.0, math.e**0.5, math.e**1.5]
"""e^(τ f) of these negatives at τ = ½."""


def test_at_a_temperature_believed_negatives_weigh_more() -> None:
    mean = (0 * WEIGHTS[0] + 1 * WEIGHTS[1] + 3 * WEIGHTS[2]) / sum(WEIGHTS)
    loss = margin_loss(torch.tensor([2.0]), NEGATIVES, 5.0, adversarial=0.5)
    assert loss.item() == pytest.approx(5 + mean - 2)


def test_no_gradient_flows_through_a_weight() -> None:
    negatives = NEGATIVES.clone().requires_grad_()
    margin_loss(torch.tensor([2.0]), negatives, 5.0, adversarial=0.5).backward()
    expected = [[weight / sum(WEIGHTS) for weight in WEIGHTS]]
    torch.testing.assert_close(negatives.grad, torch.tensor(expected))


def test_the_softmax_over_samples() -> None:
    positive, negatives = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 2.0], [1.0, 1.0]])
    first = math.log(math.e + 1 + math.e**2) - 1
    second = math.log(1 + 2 * math.e)
    loss = sampled_softmax_loss(positive, negatives)
    assert loss.item() == pytest.approx((first + second) / 2)


def test_its_negatives_are_weighed_as_if_there_were_as_many() -> None:
    share = [weight / sum(WEIGHTS) for weight in WEIGHTS]
    below = math.e**2 + 3 * sum(w * math.e**f for w, f in zip(share, (0, 1, 3), strict=True))
    loss = sampled_softmax_loss(torch.tensor([2.0]), NEGATIVES, adversarial=0.5)
    assert loss.item() == pytest.approx(math.log(below) - 2)
    cold = sampled_softmax_loss(torch.tensor([2.0]), NEGATIVES, adversarial=1e-9)
    assert cold.item() == pytest.approx(sampled_softmax_loss(torch.tensor([2.0]), NEGATIVES).item())


def test_smoothing_spreads_the_target() -> None:
    scores = [2.0, 0.0, 1.0, 3.0]
    log_sum = math.log(sum(math.e**score for score in scores))
    expected = log_sum - 0.8 * 2.0 - 0.2 * sum(scores) / 4
    loss = sampled_softmax_loss(torch.tensor([2.0]), NEGATIVES, smoothing=0.2)
    assert loss.item() == pytest.approx(expected)
