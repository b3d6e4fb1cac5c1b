"""The one place that picks an implementation.

`backend_for` picks the backend of a run: `TorchBackend` on any device, or on the CPU
`NumbaBackend`, which has kernels. `loss_for` and `implementation` pick losses and other operations
that depend on the score. Every kernel has a plain twin, of which its class is a subclass, and which
the tests hold against it.
"""

from collections.abc import Mapping
from typing import Any

import torch

from lkge.backends import torch_autoencoder, torch_losses, torch_search, torch_softmax
from lkge.backends.numba import autoencoder, margin, sampled_softmax, search, softmax, updates
from lkge.backends.numba.backend import NumbaBackend
from lkge.backends.torch_backend import TorchBackend
from lkge.config import RunConfig
from lkge.errors import SettingsError
from lkge.models.losses import Loss, PerFactLoss
from lkge.models.scores import SCORES, Score

Backend = TorchBackend
"""The type of every backend: its methods are the operations on rows, and ranking."""

BILINEAR, TRANSLATIONS = ("complex", "distmult"), ("transe", "transe-l2")

IMPLEMENTATIONS: Mapping[str, tuple[type[Any], tuple[str, ...], type[Any]]] = {
    # operation: on the CPU, for these scores, otherwise
    "margin": (margin.FusedMargin, ("transe",), torch_losses.MarginLoss),
    "softmax": (softmax.FusedSoftmax, BILINEAR, torch_softmax.SoftmaxLoss),
    "sampled": (sampled_softmax.FusedSampledSoftmax, BILINEAR, torch_losses.SampledSoftmaxLoss),
    "relation_prediction": (
        softmax.FusedRelationPrediction,
        BILINEAR,
        torch_softmax.RelationPrediction,
    ),
    "row_penalty": (updates.FusedRowPenalty, tuple(SCORES), torch_losses.RowPenalty),
    "distillation": (softmax.FusedDistillation, BILINEAR, torch_softmax.DistillationLoss),
    "search": (search.ByteSearch, tuple(SCORES), torch_search.Search),
    "autoencoder": (autoencoder.FusedAutoencoder, TRANSLATIONS, torch_autoencoder.Autoencoder),
}
"""A class of kernels, the scores that it serves, and its plain twin, which serves every score on
every device."""


def implementation(backend: Backend, operation: str, score: Score) -> type[Any]:
    """The class that serves an operation for a score."""
    fused, scores, plain = IMPLEMENTATIONS[operation]
    return fused if backend.fused and score.name in scores else plain


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
    training = config.training
    arguments: Mapping[str, tuple[float, ...]] = {
        "margin": (training.margin, training.adversarial_temperature),
        "sampled": (training.adversarial_temperature, training.label_smoothing),
        "softmax": (training.label_smoothing,),
    }

    def built(operation: str, *arguments: float) -> Any:
        return implementation(backend, operation, score)(score, *arguments)

    on_facts: PerFactLoss = built(training.loss, *arguments[training.loss])
    terms: list[Loss] = []
    if training.relation_prediction_weight:
        terms.append(built("relation_prediction", training.relation_prediction_weight))
    if training.n3 or training.l2:
        terms.append(built("row_penalty", training.n3, training.l2))
    return torch_losses.SumOfLosses(on_facts, terms) if terms else on_facts
