"""Paired comparison of two systems: differences between runs with the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports import text
from lkge.reports.systems import MEASURES, Measure, Spread, spread
from lkge.reports.tables import Cell, Grid, Row
from lkge.studies.tables import Entry, signed

Pair = tuple[Results, Results]

PAPER, CURRENT = ({measure.key: measure for measure in MEASURES[name]} for name in PROTOCOLS)


def paired_comparison(one: str, other: str, entries: Mapping[str, Sequence[Entry]]) -> Grid:
    """One row a dataset: MRR of `one` minus MRR of `other` (mean ± standard deviation over shared
    seeds), the backward transfer of `one`, time of `other` / time of `one` with the first seed, and
    the carried bytes of `one` per training fact."""
    pairs = {dataset: _pairs(one, other, group) for dataset, group in entries.items()}
    columns = (
        *("Dataset", "Seeds", "MRR", "MRR current", "BWT", "BWT current"),
        *(f"Time of {other}", "Bytes per fact"),
    )
    rows = tuple(_row(dataset, found) for dataset, found in pairs.items() if found)
    return Grid(f"{one} minus {other}", columns, (rows,) if rows else ())


def _row(dataset: str, pairs: Sequence[Pair]) -> Row:
    def over(of: Callable[[Results, Results], float]) -> Spread:
        return spread(of(one, other) for one, other in pairs)

    def gain(measure: Measure) -> Spread:
        return over(lambda one, other: measure.of(one) - measure.of(other))

    def own(measure: Measure) -> Spread:
        return over(lambda one, _: measure.of(one))

    first, second = pairs[0]
    return (
        Cell(dataset),
        Cell(str(len(pairs))),
        *(Cell(_signed(gain(part["mrr"]))) for part in (PAPER, CURRENT)),
        *(Cell(_signed(own(part["bwt"]))) for part in (PAPER, CURRENT)),
        Cell(f"× {second.seconds / first.seconds:.1f}"),
        Cell(f"{over(lambda one, _: bytes_per_fact(one)).mean:.0f}"),
    )


def _pairs(one: str, other: str, group: Sequence[Entry]) -> list[Pair]:
    """Pairs of runs of both systems with the same seed."""
    runs = {entry.spec.name: {run.seed: run for run in entry.system.runs} for entry in group}
    mine, theirs = runs.get(one, {}), runs.get(other, {})
    return [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]


def bytes_per_fact(run: Results) -> float:
    """Carried bytes after the last snapshot / number of training facts."""
    facts = sum(record.train_facts for record in run.snapshots)
    return run.snapshots[-1].carried_bytes / max(1, facts)


def _signed(value: Spread) -> str:
    """A signed number, with its deviation if known."""
    deviation = f" ±{text.number(value.deviation)}" if not math.isnan(value.deviation) else ""
    return signed(value.mean) + deviation
