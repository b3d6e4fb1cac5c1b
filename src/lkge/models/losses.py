"""Losses, pure."""

from __future__ import annotations

import torch
from torch import Tensor


def margin_loss(positive: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Mean over facts of max(0, γ + mean_k f(negative_k) - f(positive)); f is a score.

    Shapes: positive (B,), negatives (B, K). With f = -distance this is Eq. (7), its K negative
    distances averaged before the hinge.
    """
    return torch.relu(margin + negatives.mean(dim=1) - positive).mean()
