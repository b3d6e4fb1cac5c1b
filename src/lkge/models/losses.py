"""Losses: what one is, their formulas, pure, and how strong N3 should be."""

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from lkge.config import TrainingConfig
from lkge.data.batches import Batch
from lkge.data.snapshots import Facts
from lkge.models.parameters import Gradient, Parameters


class Loss(Protocol):
    """The loss of a batch and its gradient."""

    def add_gradient(self, tables: Parameters, batch: Batch, gradient: Gradient) -> float:
        """Add the gradient of the mean loss of the batch; return that loss."""


class PerFactLoss(Loss, Protocol):
    """A loss that also has the gradient of each fact alone."""

    def add_squares(self, tables: Parameters, batch: Batch, squares: Parameters) -> None:
        """Add the squared gradient of the loss of each fact alone, Σ_b (∂loss_b/∂θ)²."""


class Distillation(Protocol):
    """The cross-entropy of the answers of an older model, the teacher, and of the model.

        loss = Σ_q w_q · -Σ_e softmax_e' f_old(h, r, e')[e] · log softmax_e' f(h, r, e')[e],

    the softmax of the teacher over its own entities, that of the model over all entities: an entity
    that the teacher does not have has the target zero.
    """

    def add_gradient(
        self, tables: Parameters, queries: Facts, weights: Tensor, gradient: Gradient
    ) -> float:
        """Add the gradient of the loss on queries (q, 2) of weights (q,); return that loss."""


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
    """log softmax_k(τ f_k), (B, K): a negative weighs the more, the higher its score (Sun et al.,
    2019). No gradient flows through a weight."""
    return functional.log_softmax(adversarial * negatives.detach(), dim=1)


def n3_by_degree(training: TrainingConfig, facts: float) -> float:
    """n3 · (sparse / k)^power where an entity has k < sparse `facts` in the mean, and
    n3 · (dense / k)^power where it has k > dense: rows with few facts overfit sooner."""
    above = max(1.0, training.n3_sparse_degree / facts)
    scale: float = (above * min(1.0, training.n3_dense_degree / facts)) ** training.n3_degree_power
    return training.n3 * min(training.n3_max_scale, scale)
