"""One question, every candidate: all L1 distances in one pass over the table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lkge.kernels.distance import l1
from lkge.kernels.jit import serial

Floats = NDArray[np.float32]


@serial
def l1_distances(query: Floats, candidates: Floats) -> Floats:
    """‖q - c‖₁ for each candidate, (n,). Shapes: query (1, d), candidates (n, d), C-contiguous.

    One thread and no lock held, so that several questions can be answered at once.
    """
    distances = np.empty(len(candidates), dtype=np.float32)
    for c in range(len(candidates)):
        distances[c] = l1(query, 0, candidates, c)
    return distances
