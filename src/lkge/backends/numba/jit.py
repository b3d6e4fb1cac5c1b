"""Typed numba decorators, so that a kernel keeps its signature under mypy; buffers for kernels.

No decorator but `rough` lets the compiler reorder or fuse float operations: it would do so
differently when it compiles a kernel and when it loads the kernel from the cache, and a first run
would have other last bits than the next. Sums that must be fast are written in vectors, in
`lkge.backends.numba.distance`.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar, cast

import numba
import torch
from torch import Tensor

from lkge.data.array_types import Floats

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
    """Named float32 buffers that live from step to step, so that a step allocates no memory. One is
    not initialised, and valid until its name is taken again. Torch allocates at the start of a
    cache line: matrix products then have the same bytes in every run."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def tensor(self, name: str, *shape: int) -> Tensor:
        """An uninitialised contiguous tensor of the given shape."""
        size = math.prod(shape)
        if name not in self._buffers or len(self._buffers[name]) < size:
            self._buffers[name] = torch.empty(size)
        return self._buffers[name][:size].view(shape)

    def take(self, name: str, *shape: int) -> Floats:
        """`tensor` as an array."""
        array: Floats = self.tensor(name, *shape).numpy()
        return array


class Buffered:
    """A loss with buffers of its own."""

    @cached_property
    def _scratch(self) -> Scratch:
        return Scratch()
