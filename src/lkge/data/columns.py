"""Arrays that come from a file by name: the cheap checks before anything relies on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.errors import DamagedFile


def stored_column(
    arrays: Mapping[str, NDArray[Any]], name: str, kind: type[np.generic]
) -> NDArray[Any]:
    """The one-dimensional array of that name and dtype, as a plain view; nothing is read of it."""
    column = arrays.get(name)
    require_fit(column is not None, f"the array {name!r} is missing")
    plain = np.asarray(column)
    require_fit(
        plain.ndim == 1 and plain.dtype == kind,
        f"the array {name!r} has shape {plain.shape} and type {plain.dtype}, "
        f"not (n,) and {np.dtype(kind)}",
    )
    return plain


def require_fit(fits: bool, otherwise: str) -> None:
    """Refuse stored arrays that cannot be what was written."""
    if not fits:
        raise DamagedFile(f"stored arrays do not fit together: {otherwise}; restore the file")
