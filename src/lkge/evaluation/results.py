"""The results of a run: metrics of link prediction and of lifelong learning in each protocol,
times, sizes, settings and provenance.

h[i, j] is the accuracy of model M_i (after snapshot i) on the test set Q_j of snapshot j.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lkge.data.rows import Rows, html_table, text_table

if TYPE_CHECKING:
    import pandas

PROTOCOLS = ("paper", "current")
FORMAT = 1
UNKNOWN = "unknown"
MOST_RELATIONS = 500
"""Results keep this many relations at most, those with the most test facts."""
SUMMARY = ("protocol", "MRR", "Hits@1", "Hits@3", "Hits@10", "FWT", "BWT")


@dataclass(frozen=True)
class Accuracy:
    """MRR and Hits@k, each a mean over `queries` queries (two queries per test fact)."""

    mrr: float
    hits1: float
    hits3: float
    hits10: float
    queries: int


class OfTest(NamedTuple):
    """`model` M_i on the test set `test` Q_j, numbered from 1."""

    protocol: str
    model: int
    test: int
    mrr: float
    hits1: float
    hits3: float
    hits10: float
    queries: int


class OfAge(NamedTuple):
    """The last model on the test facts that are new in `snapshot`, numbered from 1."""

    protocol: str
    snapshot: int
    mrr: float
    hits1: float
    hits3: float
    hits10: float
    queries: int


class OfRelation(NamedTuple):
    """The last model on the test facts of `relation`, of all snapshots."""

    protocol: str
    relation: str
    mrr: float
    hits1: float
    hits3: float
    hits10: float
    queries: int


def mean_reciprocal_rank(ranks: NDArray[np.float64]) -> float:
    """MRR = mean of 1/rank over `ranks` (n,); nan if n = 0."""
    return float(np.mean(1 / ranks)) if len(ranks) else math.nan


def accuracy(ranks: NDArray[np.float64]) -> Accuracy:
    """MRR and Hits@1, 3, 10 of `ranks` (n,). Hits@k is the fraction of ranks ≤ k."""

    def hits(k: int) -> float:
        return float(np.mean(ranks <= k)) if len(ranks) else math.nan

    return Accuracy(mean_reciprocal_rank(ranks), hits(1), hits(3), hits(10), len(ranks))


def union(parts: Iterable[Accuracy]) -> Accuracy:
    """Accuracy over the union of the queries of `parts`: each query has the same weight."""
    parts = list(parts)
    total = sum(part.queries for part in parts)

    def mean(metric: str) -> float:
        weighted = sum(getattr(part, metric) * part.queries for part in parts if part.queries)
        return weighted / total if total else math.nan

    return Accuracy(mean("mrr"), mean("hits1"), mean("hits3"), mean("hits10"), total)


@dataclass(frozen=True)
class ProtocolResult:
    """`matrix[i][j]` = h[i, j] for j ≤ i. `forward[i]` = h[i, i+1]: M_i on Q_{i+1} before training
    on snapshot i+1, with rows for its new entities and relations."""

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
        """Forward transfer: FWT = 1/(n-1) Σ_{i=2..n} h_{i-1,i}; nan if n < 2."""
        return _mean([cell.mrr for cell in self.forward if cell.queries])

    @property
    def bwt(self) -> float:
        """Backward transfer: BWT = 1/(n-1) Σ_{i=1..n-1} (h_{n,i} - h_{i,i}); nan if n < 2."""
        pairs = [(self.matrix[-1][i], self.matrix[i][i]) for i in range(len(self.matrix) - 1)]
        return _mean([last.mrr - first.mrr for last, first in pairs if first.queries])


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


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


@dataclass(frozen=True, repr=False)
class Results:
    """The results of a run, complete or so far.

    `provenance`: see `lkge.provenance`; empty for results that were made before it was recorded.
    `data_digest`: the digest of the growing graph, `GrowingGraph.digest`.
    `relations`: by protocol and relation, the last model on the test facts of all snapshots; the
    relations with the most test facts first. Empty in older results and before the last snapshot.
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
    relations: Mapping[str, Mapping[str, Accuracy]] = field(default_factory=dict)

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

    def to_frame(self) -> pandas.DataFrame:
        """A data frame of pandas: a row for each protocol, model and test set, numbered from 1."""
        return self.cells().to_frame()

    def cells(self) -> Rows[OfTest]:
        """A row for each protocol, model and test set."""
        return Rows(
            OfTest(name, model, test, *astuple(cell))
            for name, protocol in self.protocols.items()
            for model, line in enumerate(protocol.matrix, start=1)
            for test, cell in enumerate(line, start=1)
        )

    def by_age(self) -> Rows[OfAge]:
        """The last model by the snapshot in which a test fact is new: a row for each protocol and
        snapshot, the oldest first."""
        last = len(self.snapshots)
        return Rows(OfAge(row.protocol, *row[2:]) for row in self.cells() if row.model == last)

    def by_relation(self) -> Rows[OfRelation]:
        """The last model by relation: a row for each protocol and relation, the relations with the
        most test facts first."""
        return Rows(
            OfRelation(protocol, relation, *astuple(found))
            for protocol, relations in self.relations.items()
            for relation, found in relations.items()
        )

    def __repr__(self) -> str:
        return f"<Results of {self._title()}>\n{text_table(SUMMARY, self._summary())}"

    def _repr_html_(self) -> str:
        return html_table(self._title(), SUMMARY, self._summary())

    def _title(self) -> str:
        return f"{self.method} on {self.dataset}, {len(self.snapshots)} snapshots"

    def _summary(self) -> list[tuple[str | float, ...]]:
        """A row for each protocol that was evaluated."""
        return [
            (name, final.mrr, final.hits1, final.hits3, final.hits10, found.fwt, found.bwt)
            for name, found in self.protocols.items()
            if found.matrix
            for final in [found.final]
        ]

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
            relations={
                protocol: {name: _accuracy(cell) for name, cell in found.items()}
                for protocol, found in tree.get("relations", {}).items()
            },
        )


def _protocol(tree: Mapping[str, Any]) -> ProtocolResult:
    *matrix, forward = (tuple(map(_accuracy, row)) for row in (*tree["matrix"], tree["forward"]))
    return ProtocolResult(tuple(matrix), forward)


def _accuracy(cell: Mapping[str, Any]) -> Accuracy:
    return Accuracy(**_none_to_nan(cell))


def nan_to_none(tree: Any) -> Any:
    """A tree for `json.dump`: nan and infinities are null, dataclasses are objects."""
    match tree:
        case float():
            return tree if math.isfinite(tree) else None
        case Mapping():
            return {name: nan_to_none(value) for name, value in tree.items()}
        case list() | tuple():
            return [nan_to_none(value) for value in tree]
        case _ if is_dataclass(tree) and not isinstance(tree, type):
            return nan_to_none(asdict(tree))
        case _:
            return tree


def _none_to_nan(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in record.items()}
