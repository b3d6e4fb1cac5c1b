"""All distances of a question, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.backends.numba import scan
from lkge.backends.numba.scan import all_moduli_distances, moduli_distances


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dim", [1, 7, 8, 31, 32, 33, 200])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_twins_give_the_same_distances(p: int, dim: int, size: int) -> None:
    generator = np.random.default_rng(dim + size)
    queries = generator.normal(size=(3, dim)).astype(np.float32)
    candidates = generator.normal(size=(size, dim)).astype(np.float32)
    plain = np.linalg.norm(queries[:, None] - candidates, ord=p, axis=-1)
    one, many = getattr(scan, f"l{p}_distances"), getattr(scan, f"all_l{p}_distances")
    np.testing.assert_allclose(many(queries, candidates), plain, rtol=1e-5)
    for query, distances in zip(queries, plain, strict=True):
        np.testing.assert_allclose(one(query[None], candidates), distances, rtol=1e-5)


@pytest.mark.parametrize("dim", [2, 6, 16, 34, 200])
@pytest.mark.parametrize("size", [0, 1, 100])
def test_twins_give_the_same_sums_of_moduli(dim: int, size: int) -> None:
    generator = np.random.default_rng(dim + size)
    queries = generator.normal(size=(3, dim)).astype(np.float32)
    candidates = generator.normal(size=(size, dim)).astype(np.float32)
    apart = queries[:, None] - candidates
    plain = np.hypot(apart[..., : dim // 2], apart[..., dim // 2 :]).sum(axis=-1)
    together = all_moduli_distances(queries, candidates)
    np.testing.assert_allclose(together, plain, rtol=1e-5)
    for query, distances in zip(queries, plain, strict=True):
        np.testing.assert_allclose(moduli_distances(query[None], candidates), distances, rtol=1e-5)


def test_equal_rows_are_equally_far_wherever_they_stand() -> None:
    queries = np.random.default_rng(0).normal(size=(5, 26)).astype(np.float32)
    candidates = np.tile(queries[0] + 1, (77, 1))
    for distances in (
        *scan.all_l1_distances(queries, candidates),
        *scan.all_l2_distances(queries, candidates),
        *all_moduli_distances(queries, candidates),
        moduli_distances(queries[:1], candidates),
    ):
        assert len(set(distances.tolist())) == 1
