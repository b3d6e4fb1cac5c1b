"""Typed doors to numba, so that a kernel keeps its signature under mypy.

No door lets the compiler reorder or fuse float operations. It would do so differently when it
compiles a kernel and when it loads it from the cache, and then a first run had other last bits than
the next. Sums that must be fast are written in vectors, in `lkge.kernels.distance`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def serial(function: Function) -> Function:
    """Compile for one thread; cached on disk."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def parallel(function: Function) -> Function:
    """Compile with `prange` over all threads; cached on disk."""
    return cast(Function, numba.njit(cache=True, nogil=True, parallel=True)(function))


def rough(function: Function) -> Function:
    """`parallel` for bounds, which no result depends on: sums may be reordered."""
    jit = numba.njit(cache=True, nogil=True, parallel=True, fastmath={"reassoc", "contract"})
    return cast(Function, jit(function))


def inlined(function: Function) -> Function:
    """Compile into each caller."""
    return cast(Function, numba.njit(nogil=True, inline="always")(function))
