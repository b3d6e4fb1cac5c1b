from __future__ import annotations

from collections.abc import Iterator

import numba
import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Work that takes a millisecond is not worth sharing out; the tests of threads ask for more."""
    before = numba.get_num_threads(), torch.get_num_threads()
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    yield
    numba.set_num_threads(before[0])
    torch.set_num_threads(before[1])
