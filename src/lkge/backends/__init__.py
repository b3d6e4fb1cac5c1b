"""The one place that picks an implementation.

`backend_for` picks the backend of a run: `TorchBackend` on any device, or on the CPU
`NumbaBackend`, which has kernels. `loss_for` and `implementation` pick losses and other operations
that depend on the score. Every kernel has a plain twin, of which its class is a subclass, and which
the tests hold against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from lkge.backends.numba.autoencoder import FusedAutoencoder
from lkge.backends.numba.backend import NumbaBackend
from lkge.backends.numba.margin import FusedMargin
from lkge.backends.numba.sampled_softmax import FusedSampledSoftmax
from lkge.backends.numba.softmax import FusedDistillation, FusedRelationPrediction, FusedSoftmax
from lkge.backends.numba.updates import FusedRowPenalty
from lkge.backends.torch_autoencoder import Autoencoder
from lkge.backends.torch_backend import TorchBackend
from lkge.backends.torch_losses import MarginLoss, RowPenalty, SampledSoftmaxLoss, SumOfLosses
from lkge.backends.torch_softmax import DistillationLoss, RelationPrediction, SoftmaxLoss
from lkge.config import RunConfig
from lkge.errors import SettingsError
from lkge.models.losses import Loss, PerFactLoss
from lkge.models.scores import SCORES, Score

Backend = TorchBackend
"""The type of every backend: its methods are the operations on rows, and ranking."""

BILINEAR, EVERY = ("complex", "distmult"), tuple(SCORES)


class Implementation(NamedTuple):
    """A class of kernels, the scores that it serves on the CPU, and its plain twin, which serves
    every score on every device."""

    fused: type[Any]
    scores: tuple[str, ...]
    plain: type[Any]


IMPLEMENTATIONS: Mapping[str, Implementation] = MappingProxyType(
    {
        # operation                        on the CPU, for these scores          otherwise
        "margin": Implementation(FusedMargin, ("transe",), MarginLoss),
        "softmax": Implementation(FusedSoftmax, BILINEAR, SoftmaxLoss),
        "sampled": Implementation(FusedSampledSoftmax, BILINEAR, SampledSoftmaxLoss),
        "relation_prediction": Implementation(
            FusedRelationPrediction, BILINEAR, RelationPrediction
        ),
        "row_penalty": Implementation(FusedRowPenalty, EVERY, RowPenalty),
        "distillation": Implementation(FusedDistillation, BILINEAR, DistillationLoss),
        "autoencoder": Implementation(FusedAutoencoder, ("transe", "transe-l2"), Autoencoder),
    }
)


def implementation(backend: Backend, operation: str, score: Score) -> type[Any]:
    """The class that serves an operation for a score."""
    found = IMPLEMENTATIONS[operation]
    if backend.fused and score.name in found.scores:
        return found.fused
    return found.plain


def backend_for(backend: str, device: str) -> Backend:
    """The backend of that name, auto, numba or torch, on a device that exists."""
    if backend == "numba" and device != "cpu":
        raise SettingsError("backend = 'numba' needs device = 'cpu'; use backend = 'torch'")
    check_device(device)
    return NumbaBackend() if device == "cpu" and backend != "torch" else TorchBackend()


def check_device(device: str) -> None:
    """Refuse a device that torch does not know or that this machine does not have."""
    try:
        kind = torch.device(device).type
        torch.empty(0, device=device).to("cpu")
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise SettingsError(
            f"device = {device!r} is not available here; use --device cpu, or install a torch "
            "that supports it"
        ) from error
    if kind == "meta":
        raise SettingsError("device = 'meta' holds no values; use --device cpu")


def loss_for(config: RunConfig, score: Score, backend: Backend) -> PerFactLoss:
    """The loss on facts, with the further terms that have a weight."""
    on_facts = implementation(backend, config.training.loss, score)(score, *_loss_arguments(config))
    terms = list(_terms(config, score, backend))
    return SumOfLosses(on_facts, terms) if terms else on_facts


def negatives_of(config: RunConfig) -> int:
    """The negatives that the loss wants for each fact."""
    return 0 if config.training.loss == "softmax" else config.training.negatives


def _loss_arguments(config: RunConfig) -> tuple[float, ...]:
    match config.training.loss:
        case "softmax":
            return (config.training.label_smoothing,)
        case "sampled":
            return config.training.adversarial_temperature, config.training.label_smoothing
        case _:
            return config.training.margin, config.training.adversarial_temperature


def _terms(config: RunConfig, score: Score, backend: Backend) -> Iterator[Loss]:
    if config.training.relation_prediction_weight:
        kind = implementation(backend, "relation_prediction", score)
        yield kind(score, config.training.relation_prediction_weight)
    if config.training.n3 or config.training.l2:
        yield implementation(backend, "row_penalty", score)(
            score, config.training.n3, config.training.l2
        )
