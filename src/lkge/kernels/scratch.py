"""Buffers that live from step to step, so that a step asks the system for no memory."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray


class Scratch:
    """Named float32 buffers. An array taken under a name is valid until that name is taken again,
    and its content is whatever was left there. Torch allocates them, at the start of a line of the
    cache: matrix products then have the same bytes in every run."""

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
