"""Typed doors to numba, so that a kernel keeps its signature under mypy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

FAST = {"reassoc", "contract", "nsz", "arcp"}
"""Reordering of sums is allowed; NaN and infinity keep their meaning."""


def serial(function: Function) -> Function:
    """Compile for one thread; cached on disk."""
    return cast(Function, numba.njit(cache=True, nogil=True, fastmath=FAST)(function))


def ordered(function: Function) -> Function:
    """Compile for one thread, sums in the order in which they are written."""
    return cast(Function, numba.njit(nogil=True)(function))


def parallel(function: Function) -> Function:
    """Compile with `prange` over all threads; cached on disk."""
    jit = numba.njit(cache=True, nogil=True, fastmath=FAST, parallel=True)
    return cast(Function, jit(function))


def inlined(function: Function) -> Function:
    """Compile into each caller, so that a caller's machine code, and with it the order of its
    sums, is the same whether or not anything was cached before."""
    return cast(Function, numba.njit(nogil=True, fastmath=FAST, inline="always")(function))
