"""Random tables, batches and facts, from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lkge.backends import Backend, implementation
from lkge.backends.numba.backend import NumbaBackend
from lkge.backends.torch_backend import TorchBackend
from lkge.data.batches import Batch
from lkge.data.snapshots import Facts
from lkge.models.losses import Loss
from lkge.models.parameters import Gradient, Parameters
from lkge.models.scores import Score


def made_tables(
    seed: int, entities: int, relations: int, dim: int, scale: float = 0.4
) -> Parameters:
    """Normal rows; `relations` counts forward ones, the table holds their inverses too."""
    generator = np.random.default_rng(seed)

    def draw(rows: int) -> torch.Tensor:
        return torch.from_numpy((scale * generator.standard_normal((rows, dim))).astype(np.float32))

    return Parameters(draw(entities), draw(2 * relations))


def made_facts(seed: int, size: int, entities: int, relations: int) -> Facts:
    """Facts by id with even relations; the same fact may come twice, and subject may be object."""
    generator = np.random.default_rng(seed)
    columns = [
        generator.integers(0, entities, size),
        2 * generator.integers(0, relations, size),
        generator.integers(0, entities, size),
    ]
    return np.stack(columns, axis=1).astype(np.int32)


def made_batch(seed: int, size: int, negatives: int, entities: int, relations: int) -> Batch:
    """Facts over relations and inverses, each with corruptions on either side."""
    generator = np.random.default_rng(seed)
    facts = made_facts(seed, size, entities, relations)
    facts[:, 1] += generator.integers(0, 2, size, dtype=np.int32)
    return Batch(
        facts=facts,
        corruptions=generator.integers(0, entities, (size, negatives), dtype=np.int32),
        corrupt_object=generator.integers(0, 2, (size, negatives)).astype(np.bool_),
    )


def made_shared_batch(
    seed: int, size: int, negatives: int, entities: int, relations: int, sharing: int
) -> Batch:
    """Facts over relations and inverses, whose corruptions are those of the first in its group."""
    alone = made_batch(seed, size, negatives, entities, relations)
    corruptions = alone.corruptions[np.arange(size) // sharing * sharing]
    return Batch(alone.facts, corruptions, np.ones_like(alone.corrupt_object), sharing)


def batch_of(*rows: tuple[tuple[int, int, int], list[tuple[int, bool]]]) -> Batch:
    """A batch written out: each fact with its corruptions, (entity put in, on the object side)."""
    return Batch(
        facts=np.array([fact for fact, _ in rows], dtype=np.int32),
        corruptions=np.array([[entity for entity, _ in row] for _, row in rows], dtype=np.int32),
        corrupt_object=np.array([[side for _, side in row] for _, row in rows], dtype=np.bool_),
    )


def gradient_of(objective: Loss, tables: Parameters, batch: Batch) -> tuple[float, Gradient]:
    """The loss of the batch and its gradient alone."""
    gradient = Gradient.like(tables)
    return objective.add_gradient(tables, batch, gradient), gradient


def bytes_of(gradient: Gradient) -> list[bytes]:
    """Values and touched rows, to compare bit for bit."""
    return [t.numpy().tobytes() for part in gradient for t in (part.values, part.touched)]


def built(operation: str, backend: Backend, score: Score, *arguments: Any) -> Any:
    """What serves an operation for a score."""
    return implementation(backend, operation, score)(score, *arguments)


NUMBA, TORCH = NumbaBackend(), TorchBackend()
BACKENDS = pytest.mark.parametrize("backend", [NUMBA, TORCH], ids=["numba", "torch"])
