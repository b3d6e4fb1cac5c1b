"""The softmax over a sample of candidates estimates that over all entities."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backends.made import BACKENDS

from lkge.backends import Backend, implementation
from lkge.data.batches import Batch, sample_candidates
from lkge.models.model import xavier_parameters
from lkge.models.parameters import Gradient
from lkge.models.scores import ComplEx

pytestmark = pytest.mark.usefixtures("one_thread")

ENTITIES, DRAWN, SAMPLES = 300, 60, 150


@BACKENDS
def test_the_mean_gradient_over_samples_is_that_over_all_entities(backend: Backend) -> None:
    generator = np.random.default_rng(5)
    tables = xavier_parameters(ENTITIES, 2, 8, generator)
    tables.entity.mul_(4)
    columns = [generator.integers(0, size, 20, dtype=np.int32) for size in (ENTITIES, 4, ENTITIES)]
    facts = np.stack(columns, axis=1)
    none = np.empty((len(facts), 0), dtype=np.int32)
    loss = implementation(backend, "softmax", ComplEx())(ComplEx(), 0.0)

    def gradient(most: int) -> tuple[float, torch.Tensor]:
        sample = sample_candidates(facts, ENTITIES, 1.0, generator, most=most)
        found = Gradient.like(tables)
        batch = Batch(facts, none, none.astype(np.bool_), sample=sample)
        return loss.add_gradient(tables, batch, found), found.entity.values

    of_all, wanted = gradient(0)
    losses, found = zip(*(gradient(DRAWN) for _ in range(SAMPLES)), strict=True)
    assert np.mean(losses) == pytest.approx(of_all, rel=0.01)
    error = (torch.stack(found).mean(dim=0) - wanted).norm() / wanted.norm()
    assert error < 0.1
    single = (found[0] - wanted).norm() / wanted.norm()
    assert single > 2 * error
