"""The nearest vector without negative products, against a search and by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import config, given
from hypothesis import strategies as st

from lkge.methods.gem import Matrix, Vector, cone_weights


def by_trying_all(rows: Matrix, vector: Vector) -> Vector:
    """Of all sets of rows that may be tight, the feasible projection that is nearest."""
    best = np.zeros_like(vector) if (rows @ np.zeros_like(vector) >= 0).all() else vector
    for size in range(len(rows) + 1):
        for tight in itertools.combinations(range(len(rows)), size):
            part = rows[list(tight)]
            weights = np.linalg.lstsq(part @ part.T, -part @ vector, rcond=None)[0]
            found = vector + part.T @ weights
            if (rows @ found >= -1e-9).all() and np.linalg.norm(found - vector) < np.linalg.norm(
                best - vector
            ):
                best = found
    return best


@config(max_examples=60, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**20), count=st.integers(1, 5), alike=st.booleans())
def test_it_is_the_nearest_vector_without_a_negative_product(
    seed: int, count: int, alike: bool
) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((count, 7))
    if alike and count > 1:
        rows[1] = rows[0]
    vector = generator.standard_normal(7) - 0.5 * rows.sum(0)
    weights = cone_weights(rows @ rows.T, rows @ vector)
    assert (weights >= 0).all()
    found = vector + rows.T @ weights
    assert (rows @ found >= -1e-9).all()
    nearest = by_trying_all(rows, vector)
    assert np.linalg.norm(found - vector) == pytest.approx(np.linalg.norm(nearest - vector))


def test_by_hand() -> None:
    gram = np.array([[4.0, 0.0], [0.0, 1.0]])
    assert cone_weights(gram, np.array([-2.0, 3.0])).tolist() == pytest.approx([0.5, 0.0])
    assert cone_weights(gram, np.array([1.0, 0.0])).tolist() == [0.0, 0.0]
    assert cone_weights(np.zeros((0, 0)), np.zeros(0)).tolist() == []
