"""The embedding as a flat map: which entities are on it, and where."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def principal_plane(rows: NDArray[np.float32]) -> Floats:
    """Rows (n, d) seen from where they spread most, (n, 2), within -1 … 1.

    Centred rows = U S Vᵀ; the coordinates are the first two columns of U S. Each axis points to its
    longer tail (the sum of cubes is positive), so that maps of one version and the next look alike.
    """
    plane = np.zeros((len(rows), 2))
    if not len(rows):
        return plane
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    axes = min(2, len(sizes))
    plane[:, :axes] = left[:, :axes] * sizes[:axes]
    plane *= np.where((plane**3).sum(axis=0) < 0, -1.0, 1.0)
    reach = np.abs(plane).max()
    return plane / reach if reach > 0 else plane


def on_the_map(degrees: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The ids of at most `limit` entities, ascending: all, or else half of them those with most
    facts, the others evenly from the oldest to the newest."""
    count = len(degrees)
    if count <= limit:
        return np.arange(count)
    leading = np.argsort(-degrees, kind="stable")[: limit // 2]
    others = np.setdiff1d(np.arange(count), leading, assume_unique=True)
    places = np.linspace(0, len(others) - 1, limit - len(leading)).round().astype(np.int64)
    return np.union1d(leading, others[places])
