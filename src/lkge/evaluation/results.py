"""What a run found: h[i, j] per protocol, times and sizes. All metrics are functions of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

PROTOCOLS = ("paper", "current")
FORMAT = 1


@dataclass(frozen=True)
class Accuracy:
    """Link prediction accuracy, each a mean over `queries` queries (two per test fact)."""

    mrr: float
    hits1: float
    hits3: float
    hits10: float
    queries: int


def union(parts: Iterable[Accuracy]) -> Accuracy:
    """The accuracy over all queries of the parts together: every query weighs the same."""
    parts = list(parts)
    total = sum(part.queries for part in parts)

    def mean(metric: str) -> float:
        weighted = sum(getattr(part, metric) * part.queries for part in parts if part.queries)
        return weighted / total if total else float("nan")

    return Accuracy(mean("mrr"), mean("hits1"), mean("hits3"), mean("hits10"), total)


@dataclass(frozen=True)
class ProtocolResult:
    """`matrix[i][j]` is M_i on Q_j for j ≤ i; `forward[i]` is M_i, grown, on Q_{i+1}."""

    matrix: tuple[tuple[Accuracy, ...], ...] = ()
    forward: tuple[Accuracy, ...] = ()

    def after(self, i: int) -> Accuracy:
        """M_i on the union of Q_0 … Q_i."""
        return union(self.matrix[i])

    @property
    def final(self) -> Accuracy:
        """The last model on the union of all test sets: the paper's Table 2."""
        return self.after(len(self.matrix) - 1)

    @property
    def fwt(self) -> float:
        """FWT = 1/(n-1) Σ_{i=2..n} h_{i-1,i}; nan with fewer than two snapshots."""
        return _mean([cell.mrr for cell in self.forward if cell.queries])

    @property
    def bwt(self) -> float:
        """BWT = 1/(n-1) Σ_{i=1..n-1} (h_{n,i} - h_{i,i}); nan with fewer than two snapshots."""
        return _mean(
            [
                self.matrix[-1][i].mrr - self.matrix[i][i].mrr
                for i in range(len(self.matrix) - 1)
                if self.matrix[i][i].queries
            ]
        )


@dataclass(frozen=True)
class SnapshotRecord:
    """How one snapshot was learned. Times are in seconds; the first includes the second.

    `valid_mrr` is that of the best epoch on V_i, `union_valid_mrr` that of M_i on V_1 ∪ … ∪ V_i,
    each ranked as in the `paper` protocol: the figure to choose settings by. `note` is what the
    method has to say of it.
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
    """The whole outcome of a run, complete or so far."""

    dataset: str
    method: str
    config: Mapping[str, Any]
    snapshots: tuple[SnapshotRecord, ...] = ()
    protocols: Mapping[str, ProtocolResult] = field(
        default_factory=lambda: {name: ProtocolResult() for name in PROTOCOLS}
    )

    @property
    def seed(self) -> int | None:
        """The seed of the run; None where the results do not say it."""
        part = self.config.get("training", self.config)
        return part.get("seed") if isinstance(part, Mapping) else None

    @property
    def mrr(self) -> float:
        """MRR of the last model on the union of the tests, `paper` protocol."""
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
        """The inverse of `to_json`."""
        return cls(
            dataset=tree["dataset"],
            method=tree["method"],
            config=tree["config"] if "config" in tree else tree["settings"],
            snapshots=tuple(SnapshotRecord(**_none_to_nan(record)) for record in tree["snapshots"]),
            protocols={name: _protocol(part) for name, part in tree["protocols"].items()},
        )


def _protocol(tree: Mapping[str, Any]) -> ProtocolResult:
    return ProtocolResult(
        matrix=tuple(
            tuple(Accuracy(**_none_to_nan(cell)) for cell in row) for row in tree["matrix"]
        ),
        forward=tuple(Accuracy(**_none_to_nan(cell)) for cell in tree["forward"]),
    )


def _accuracy(cell: Mapping[str, Any]) -> Accuracy:
    return Accuracy(**_none_to_nan(cell))


def nan_to_none(tree: Any) -> Any:
    """A tree for `json.dump` in which a number that is not there (nan) is null."""
    if isinstance(tree, Mapping):
        return {name: nan_to_none(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [nan_to_none(value) for value in tree]
    return None if isinstance(tree, float) and math.isnan(tree) else tree


def _none_to_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in record.items()}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
