"""The L1 distance of two rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lkge.kernels.jit import inlined

Floats = NDArray[np.float32]


@inlined
def l1(x: Floats, a: int, y: Floats, b: int) -> np.float32:
    """‖x[a] - y[b]‖₁. It takes a matrix and a row, for a view of a row costs more than the sum."""
    total = np.float32(0)
    for i in range(x.shape[1]):
        total += abs(x[a, i] - y[b, i])
    return total
