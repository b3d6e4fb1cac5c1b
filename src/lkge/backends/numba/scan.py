"""Questions past every candidate: all distances in one pass over the table.

One question is answered on one thread without a lock, so that several can be answered at once.
"""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import NDArray

from lkge.backends.numba.distance import l1, l2, moduli
from lkge.backends.numba.jit import parallel, serial

Floats = NDArray[np.float32]

L1, L2, MODULI = range(3)
"""‖q - c‖₁, ‖q - c‖₂, and Σ |q - c| over complex coordinates."""


@serial
def distances(kind: int, query: Floats, candidates: Floats) -> Floats:
    """The distance of a question (1, d) to each candidate (n, d), all C-contiguous, (n,)."""
    found = np.empty(len(candidates), dtype=np.float32)
    for c in range(len(candidates)):
        if kind == L1:
            found[c] = l1(query, 0, candidates, c)
        elif kind == L2:
            found[c] = l2(query, 0, candidates, c)
        else:
            found[c] = moduli(query, 0, candidates, c)
    return found


@parallel
def all_distances(kind: int, queries: Floats, candidates: Floats) -> Floats:
    """`distances` of many questions (q, d), on all threads, (q, n)."""
    found = np.empty((len(queries), len(candidates)), dtype=np.float32)
    for q in prange(len(queries)):
        found[q] = distances(kind, queries[q : q + 1], candidates)
    return found
