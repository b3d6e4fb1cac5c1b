from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Work that takes a millisecond is not worth sharing out."""
    import numba
    import torch

    before = numba.get_num_threads(), torch.get_num_threads()
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    yield
    numba.set_num_threads(before[0])
    torch.set_num_threads(before[1])


@pytest.fixture
def patient_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the disk: a process that dies does not take its files along."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
