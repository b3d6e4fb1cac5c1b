"""All distances of a query, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.backends.numba.distance import L1, L2, MODULI, all_distances, distances


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dim", [1, 7, 8, 31, 32, 33, 200])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_twins_give_the_same_distances(p: int, dim: int, size: int) -> None:
    generator = np.random.default_rng(dim + size)
    queries = generator.normal(size=(3, dim)).astype(np.float32)
    candidates = generator.normal(size=(size, dim)).astype(np.float32)
    plain = np.linalg.norm(queries[:, None] - candidates, ord=p, axis=-1)
    kind = {1: L1, 2: L2}[p]
    np.testing.assert_allclose(all_distances(kind, queries, candidates), plain, rtol=1e-5)
    for query, expected in zip(queries, plain, strict=True):
        np.testing.assert_allclose(distances(kind, query[None], candidates), expected, rtol=1e-5)


@pytest.mark.parametrize("dim", [2, 6, 16, 34, 200])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_twins_give_the_same_sums_of_moduli(dim: int, size: int) -> None:
    generator = np.random.default_rng(dim + size)
    queries = generator.normal(size=(3, dim)).astype(np.float32)
    candidates = generator.normal(size=(size, dim)).astype(np.float32)
    apart = queries[:, None] - candidates
    plain = np.hypot(apart[..., : dim // 2], apart[..., dim // 2 :]).sum(axis=-1)
    np.testing.assert_allclose(all_distances(MODULI, queries, candidates), plain, rtol=1e-5)
    for query, expected in zip(queries, plain, strict=True):
        np.testing.assert_allclose(distances(MODULI, query[None], candidates), expected, rtol=1e-5)


def test_equal_rows_are_equally_far_wherever_they_stand() -> None:
    queries = np.random.default_rng(0).normal(size=(5, 26)).astype(np.float32)
    candidates = np.tile(queries[0] + 1, (77, 1))
    for kind in (L1, L2, MODULI):
        together = all_distances(kind, queries, candidates)
        for found in (*together, distances(kind, queries[:1], candidates)):
            assert len(set(found.tolist())) == 1
