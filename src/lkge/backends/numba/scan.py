"""Questions past every candidate: all distances in one pass over the table.

A kernel for one question runs on one thread and holds no lock, so that several questions can be
answered at once.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.backends.numba.distance import l1, l2, moduli
from lkge.backends.numba.jit import parallel, serial

Floats = NDArray[np.float32]


@serial
def l1_distances(query: Floats, candidates: Floats) -> Floats:
    """‖q - c‖₁ for each candidate, (n,). Shapes: query (1, d), candidates (n, d), C-contiguous."""
    distances = np.empty(len(candidates), dtype=np.float32)
    for c in range(len(candidates)):
        distances[c] = l1(query, 0, candidates, c)
    return distances


@serial
def l2_distances(query: Floats, candidates: Floats) -> Floats:
    """‖q - c‖₂ for each candidate, (n,). Shapes as above."""
    distances = np.empty(len(candidates), dtype=np.float32)
    for c in range(len(candidates)):
        distances[c] = l2(query, 0, candidates, c)
    return distances


@serial
def moduli_distances(query: Floats, candidates: Floats) -> Floats:
    """Σ |q - c| over complex coordinates for each candidate, (n,). Shapes as above."""
    distances = np.empty(len(candidates), dtype=np.float32)
    for c in range(len(candidates)):
        distances[c] = moduli(query, 0, candidates, c)
    return distances


@parallel
def all_l1_distances(queries: Floats, candidates: Floats) -> Floats:
    """‖q - c‖₁ for many questions (q, d), on all threads, (q, n)."""
    distances = np.empty((len(queries), len(candidates)), dtype=np.float32)
    for q in prange(len(queries)):
        for c in range(len(candidates)):
            distances[q, c] = l1(queries, q, candidates, c)
    return distances


@parallel
def all_l2_distances(queries: Floats, candidates: Floats) -> Floats:
    """‖q - c‖₂ for many questions, in the same way."""
    distances = np.empty((len(queries), len(candidates)), dtype=np.float32)
    for q in prange(len(queries)):
        for c in range(len(candidates)):
            distances[q, c] = l2(queries, q, candidates, c)
    return distances


@parallel
def all_moduli_distances(queries: Floats, candidates: Floats) -> Floats:
    """Σ |q - c| over complex coordinates for many questions, in the same way."""
    distances = np.empty((len(queries), len(candidates)), dtype=np.float32)
    for q in prange(len(queries)):
        for c in range(len(candidates)):
            distances[q, c] = moduli(queries, q, candidates, c)
    return distances
