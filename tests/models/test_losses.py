"""The margin loss by hand."""

from __future__ import annotations

import pytest
import torch

from lkge.models.losses import margin_loss


def test_negatives_are_averaged_before_the_hinge_and_facts_after_it() -> None:
    positive = torch.tensor([-1.0, -1.0])
    negatives = torch.tensor([[-2.0, -10.0], [-2.0, -3.0]])
    # first fact: 3 - 6 + 1 < 0; second fact: 3 - 2.5 + 1 = 1.5
    assert margin_loss(positive, negatives, 3.0).item() == pytest.approx(0.75)


def test_a_better_positive_lowers_the_loss() -> None:
    negatives = torch.tensor([[-2.0]])
    worse, better = (margin_loss(torch.tensor([s]), negatives, 4.0).item() for s in (-3.0, -1.0))
    assert (worse, better) == (5.0, 3.0)
