from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def one_thread() -> Iterator[None]:
    """See `single_threaded`."""
    from tests.training.made import single_threaded

    with single_threaded():
        yield


@pytest.fixture
def patient_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the disk: a process that dies does not take its files along."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
