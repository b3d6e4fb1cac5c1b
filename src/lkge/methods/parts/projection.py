"""The nearest vector in a cone of half-spaces, by its small dual."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

ROUNDING = 1e-12


def cone_weights(gram: Matrix, products: Vector) -> Vector:
    """v ≥ 0 (t,) that minimises ½ vᵀAv + vᵀb for a Gram matrix A = GGᵀ (t, t) and b = Gg (t,).

    Then g + Gᵀv is the vector nearest to g whose products with the rows of G are not negative. It
    is an active-set search (Lawson and Hanson, 1974): rows enter one by one where their product is
    most negative, and leave where their weight would be.
    """
    weights = np.zeros(len(products))
    active = np.zeros(len(products), dtype=bool)
    scale = ROUNDING * max(1.0, float(np.abs(products).max(initial=0.0)))
    for _ in range(3 * len(products) + 3):
        slopes = np.where(active, 0.0, gram @ weights + products)
        if slopes.min(initial=0.0) >= -scale:
            break
        active[slopes.argmin()] = True
        while (wanted := _solved(gram, products, active)).min(initial=0.0) < 0:
            leaving = active & (wanted < 0)
            steps = weights[leaving] / (weights[leaving] - wanted[leaving])
            weights = weights + steps.min() * (wanted - weights)
            active &= weights > scale
            weights[~active] = 0.0
        weights = wanted
    return weights


def _solved(gram: Matrix, products: Vector, active: NDArray[np.bool_]) -> Vector:
    """The weights that make the products of the active rows zero; zero for the others."""
    weights = np.zeros(len(products))
    within = gram[np.ix_(active, active)]
    weights[active] = np.linalg.lstsq(within, -products[active], rcond=None)[0]
    return weights
