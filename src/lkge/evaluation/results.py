"""The results of a run: h[i, j] in each protocol, times, sizes, settings and provenance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from lkge.evaluation.metrics import PROTOCOLS, Accuracy, ProtocolResult, union

__all__ = ["PROTOCOLS", "Accuracy", "ProtocolResult", "Results", "SnapshotRecord", "union"]

FORMAT = 1
UNKNOWN = "unknown"


@dataclass(frozen=True)
class SnapshotRecord:
    """How one snapshot was learned. `seconds` includes `validation_seconds`.

    `valid_mrr`: MRR of the best epoch on V_i. `union_valid_mrr`: MRR of M_i on V_1 ∪ … ∪ V_i, each
    fact ranked as in the `paper` protocol; settings are chosen by it. `note`: the method's remark.
    """

    index: int
    new_facts: int
    train_facts: int
    entities: int
    relations: int
    epochs: int
    best_epoch: int
    valid_mrr: float
    seconds: float
    validation_seconds: float
    carried_bytes: int
    union_valid_mrr: float = math.nan
    note: str = ""


@dataclass(frozen=True)
class Results:
    """The results of a run, complete or so far.

    `provenance`: see `lkge.provenance`; empty for results that were made before it was recorded.
    `data_digest`: the digest of the growing graph, `GrowingGraph.digest`.
    """

    dataset: str
    method: str
    config: Mapping[str, Any]
    snapshots: tuple[SnapshotRecord, ...] = ()
    protocols: Mapping[str, ProtocolResult] = field(
        default_factory=lambda: {name: ProtocolResult() for name in PROTOCOLS}
    )
    provenance: Mapping[str, Any] = field(default_factory=dict)
    data_digest: str = UNKNOWN

    @property
    def seed(self) -> int | None:
        """The seed of the run; None where the results do not say it."""
        part = self.config.get("training", self.config)
        return part.get("seed") if isinstance(part, Mapping) else None

    @property
    def mrr(self) -> float:
        """MRR of the last model on the union of the test sets, `paper` protocol."""
        return self.protocols["paper"].final.mrr

    @property
    def seconds(self) -> float:
        """Training time of all snapshots, with validation, without test evaluation."""
        return sum(record.seconds for record in self.snapshots)

    def to_json(self) -> dict[str, Any]:
        """A plain tree for `json.dump`; a number that is not there (nan) is null."""
        tree = {**asdict(self), "config": dict(self.config)}
        return {"format": FORMAT, **nan_to_none(tree)}

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Older files have no provenance and no digest."""
        return cls(
            dataset=tree["dataset"],
            method=tree["method"],
            config=tree["config"] if "config" in tree else tree["settings"],
            snapshots=tuple(SnapshotRecord(**_none_to_nan(record)) for record in tree["snapshots"]),
            protocols={name: _protocol(part) for name, part in tree["protocols"].items()},
            provenance=tree.get("provenance", {}),
            data_digest=tree.get("data_digest", UNKNOWN),
        )


def _protocol(tree: Mapping[str, Any]) -> ProtocolResult:
    return ProtocolResult(
        matrix=tuple(
            tuple(Accuracy(**_none_to_nan(cell)) for cell in row) for row in tree["matrix"]
        ),
        forward=tuple(Accuracy(**_none_to_nan(cell)) for cell in tree["forward"]),
    )


def nan_to_none(tree: Any) -> Any:
    """A tree for `json.dump` in which nan is null."""
    if isinstance(tree, Mapping):
        return {name: nan_to_none(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [nan_to_none(value) for value in tree]
    return None if isinstance(tree, float) and math.isnan(tree) else tree


def _none_to_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in record.items()}
