"""Typed numba decorators, so that a kernel keeps its signature under mypy; buffers for kernels.

No decorator but `rough` lets the compiler reorder or fuse float operations: it would do so
differently when it compiles a kernel and when it loads the kernel from the cache, and a first run
would have other last bits than the next. Sums that must be fast are written in vectors, in
`lkge.backends.numba.distance`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
import torch
from numpy.typing import NDArray

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


class Scratch:
    """Named float32 buffers that live from step to step, so that a step allocates no memory.

    An array taken under a name is valid until that name is taken again; it is not initialised.
    Torch allocates the buffers at the start of a cache line: matrix products then have the same
    bytes in every run."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.float32]] = {}

    def take(self, name: str, *shape: int) -> NDArray[np.float32]:
        """An uninitialised C-contiguous array of the given shape."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size:
            buffer = torch.empty(size).numpy()
            self._buffers[name] = buffer
        return buffer[:size].reshape(shape)
