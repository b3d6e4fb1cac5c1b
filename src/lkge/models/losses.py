"""Losses, pure."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def margin_loss(
    positive: Tensor, negatives: Tensor, margin: float, adversarial: float = 0.0
) -> Tensor:
    """Mean over facts of max(0, γ + mean_k f(negative_k) - f(positive)); f is a score.

    Shapes: positive (B,), negatives (B, K). With f = -distance this is Eq. (7), its K negative
    distances averaged before the hinge. With a temperature τ = `adversarial` the mean over
    negatives has the weights softmax_k(τ f(negative_k)).
    """
    if adversarial:
        mean = (log_weights(negatives, adversarial).exp() * negatives).sum(dim=1)
    else:
        mean = negatives.mean(dim=1)
    return torch.relu(margin + mean - positive).mean()


def sampled_softmax_loss(
    positive: Tensor, negatives: Tensor, adversarial: float = 0.0, smoothing: float = 0.0
) -> Tensor:
    """Mean over facts of -log (e^f⁺ / (e^f⁺ + K Σ_k w_k e^f_k)), f⁺ and f_k scores of a fact and of
    its K negatives.

    Shapes: positive (B,), negatives (B, K). All w are 1/K, or with a temperature τ = `adversarial`
    softmax_k(τ f_k). Smoothing ε makes the target 1 - ε on the fact and ε / (K + 1) on each of all.
    """
    if adversarial:
        negatives = negatives + log_weights(negatives, adversarial) + math.log(negatives.shape[1])
    logits = torch.cat([positive.unsqueeze(1), negatives], dim=1)
    first = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    return functional.cross_entropy(logits, first, label_smoothing=smoothing)


def log_weights(negatives: Tensor, adversarial: float) -> Tensor:
    """log softmax_k(τ f_k), (B, K): a negative weighs the more, the more the model believes it (Sun
    et al., 2019). No gradient flows through a weight."""
    return functional.log_softmax(adversarial * negatives.detach(), dim=1)
