"""Crafted stores: a sample here, ten thousand in `make torture`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torture import stores
from tests.torture.stores import STEPS, run


def test_a_crafted_store_is_used_or_refused(tmp_path: Path) -> None:
    found = run(range(25), tmp_path)
    assert [said for _, said in found.failures] == []
    assert found.cases == 25
    assert all(found.done[step] > 5 for step in STEPS)


def escape(kg: Path) -> None:
    (kg.parent / "outside" / "file").write_bytes(b"yours")


def crash(kg: Path) -> None:
    import ctypes

    ctypes.string_at(0)


def take_memory(kg: Path) -> None:
    _ = bytearray(8 * stores.MORE_MEMORY)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (escape, "changed outside"),
        (lambda kg: [][0], "IndexError"),
        (take_memory, "MemoryError"),
        (lambda kg: time.sleep(9), "hangs"),
        (crash, "the process ended with status"),
    ],
    ids=["escape", "error", "memory", "hang", "crash"],
)
def test_what_must_not_happen_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Callable[[Path], object], said: str
) -> None:
    monkeypatch.setattr(stores, "SECONDS", 1)
    monkeypatch.setattr(stores, "STEPS", {"step": step})
    monkeypatch.setattr(stores, "make_store", Path.mkdir)
    found = run(range(1), tmp_path)
    assert said in found.failures[0][1]
