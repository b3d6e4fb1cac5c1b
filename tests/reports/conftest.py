from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from lkge.evaluation.results import Accuracy, ProtocolResult, Results, SnapshotRecord
from lkge.methods import METHODS
from lkge.testing import paper_config

MakeRun = Callable[..., Results]


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """Made-up results that look like a real run, the same for the same arguments."""
    return _made_run


def _made_config(method: str, **changes: Any) -> dict[str, Any]:
    """The settings of a run; a method that is not installed has those of fine-tune."""
    known = method if method in METHODS else "fine-tune"
    config = paper_config(**changes, method=known)
    return {**config.to_dict(), "method": {**config.to_dict()["method"], "name": method}}


def _made_run(
    dataset: str = "ENTITY",
    method: str = "lkge",
    mrr: float = 0.234,
    *,
    seed: int = 11,
    snapshots: int = 5,
    carried: int = 1_500_000,
    **config: Any,
) -> Results:
    dice = random.Random(f"{dataset} {method} {seed} {snapshots} {sorted(config.items())}")

    def accuracy(value: float) -> Accuracy:
        return Accuracy(value, 0.6 * value, 1.1 * value, 1.8 * value, 1000)

    def protocol(loss: float) -> ProtocolResult:
        return ProtocolResult(
            matrix=tuple(
                tuple(
                    accuracy(mrr * (1 - loss * (i - j)) + dice.uniform(-0.0004, 0.0004))
                    for j in range(i + 1)
                )
                for i in range(snapshots)
            ),
            forward=tuple(accuracy(mrr / 2) for _ in range(snapshots - 1)),
        )

    return Results(
        dataset,
        method,
        _made_config(method, seed=seed, **config),
        tuple(
            SnapshotRecord(
                index=i,
                new_facts=46_388 + i,
                train_facts=27_832,
                entities=2_909 * (i + 1),
                relations=233 + i,
                epochs=40 + i,
                best_epoch=37 + i,
                valid_mrr=mrr,
                seconds=20.0 + 10 * mrr,
                validation_seconds=5.0,
                carried_bytes=carried,
            )
            for i in range(snapshots)
        ),
        {"paper": protocol(0.03), "current": protocol(0.05)},
    )
