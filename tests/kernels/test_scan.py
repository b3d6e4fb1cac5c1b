"""All distances of one question, against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lkge.kernels.scan import l1_distances


@pytest.mark.parametrize("dim", [1, 7, 8, 31, 32, 33, 200])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_twins_give_the_same_distances(dim: int, size: int) -> None:
    generator = np.random.default_rng(dim + size)
    query = generator.normal(size=(1, dim)).astype(np.float32)
    candidates = generator.normal(size=(size, dim)).astype(np.float32)
    plain = torch.cdist(torch.from_numpy(query), torch.from_numpy(candidates), p=1)[0].numpy()
    np.testing.assert_allclose(l1_distances(query, candidates), plain, rtol=1e-5)
