"""The warm-up compiles what a run uses, and says so."""

from __future__ import annotations

import numba
import pytest

from lkge.backends.numba import autoencoder, margin, ranking, updates
from lkge.testing import paper_config
from lkge.training import warmup
from lkge.training.events import Compiling, Event, ignore
from lkge.training.loop import Learned
from lkge.training.warmup import warm_up


def test_after_it_every_kernel_is_compiled() -> None:
    warm_up(paper_config(), ignore)
    entered = [
        margin._facts_pass,
        margin._entities_pass,
        ranking._count,
        autoencoder._product,
        autoencoder._residual,
        updates.adam,
        updates.clear,
    ]
    assert [kernel for kernel in entered if not kernel.signatures] == []  # type: ignore[attr-defined]


def test_a_method_has_its_own_kernels() -> None:
    """The replay model of evergreen alone has this one."""
    warm_up(paper_config(method="evergreen"), lambda _: None)
    assert updates.adagrad_rows.signatures  # type: ignore[attr-defined]


def test_another_base_has_its_own_kernels() -> None:
    config = paper_config(score="complex", loss="softmax", optimizer="adagrad", dim=7000)
    warm_up(config, lambda _: None)
    entered = [updates.adagrad, updates.scatter, updates.clear]
    assert [kernel for kernel in entered if not kernel.signatures] == []  # type: ignore[attr-defined]


def test_it_is_done_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    methods: list[str] = []

    class Noted(warmup.Loop):
        def run(self) -> Learned:
            methods.append(self.config.method.name)
            return super().run()

    monkeypatch.setattr(warmup, "Loop", Noted)
    warmup._learn_tiny.cache_clear()
    warm_up(paper_config(method="ewc"), lambda _: None)
    warm_up(paper_config(method="ewc", dim=20), lambda _: None)
    assert methods == ["ewc", "lkge"]
    warm_up(paper_config(method="ewc", score="distmult"), lambda _: None)
    assert methods == ["ewc", "lkge"] * 2


def test_it_says_so_once_if_something_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiles(*_: object) -> None:
        for numbers in ((3,), (3.0,)):
            numba.njit(lambda x: x + 1)(*numbers)

    events: list[Event] = []
    monkeypatch.setattr(warmup, "_learn_tiny", compiles)
    warm_up(paper_config(), events.append)
    assert events == [Compiling()]


def test_it_says_nothing_if_nothing_is_compiled() -> None:
    warm_up(paper_config(), ignore)
    events: list[Event] = []
    warm_up(paper_config(), events.append)
    assert events == []


def test_the_torch_backend_needs_none() -> None:
    events: list[Event] = []
    warm_up(paper_config(backend="torch"), events.append)
    assert events == []
