"""One system against another, seed by seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from lkge.bench.comparison import Line
from lkge.bench.tables import signed
from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports import text
from lkge.reports.systems import MEASURES, Measure, Spread, spread
from lkge.reports.tables import Cell, Grid, Row

Pair = tuple[Results, Results]

PAPER, CURRENT = ({measure.key: measure for measure in MEASURES[name]} for name in PROTOCOLS)


def duel(one: str, other: str, lines: Mapping[str, Sequence[Line]]) -> Grid:
    """By dataset: how much more `one` has than `other` with the same seed, in the mean ± standard
    deviation; its backward transfer; how much longer `other` learns with the first seed, whose runs
    are made one after the other; and what `one` carries."""
    pairs = {dataset: _pairs(one, other, group) for dataset, group in lines.items()}
    columns = (
        *("Dataset", "Seeds", "MRR", "MRR current", "BWT", "BWT current"),
        *(f"Time of {other}", "Bytes a fact"),
    )
    rows = tuple(_row(dataset, found) for dataset, found in pairs.items() if found)
    return Grid(f"{one} less {other}", columns, (rows,) if rows else ())


def _row(dataset: str, pairs: Sequence[Pair]) -> Row:
    def over(of: Callable[[Results, Results], float]) -> Spread:
        return spread(of(one, other) for one, other in pairs)

    def gain(measure: Measure) -> Spread:
        return over(lambda one, other: measure.of(one) - measure.of(other))

    def own(measure: Measure) -> Spread:
        return over(lambda one, _: measure.of(one))

    first, rival = pairs[0]
    return (
        Cell(dataset),
        Cell(str(len(pairs))),
        *(Cell(_signed(gain(part["mrr"]))) for part in (PAPER, CURRENT)),
        *(Cell(_signed(own(part["bwt"]))) for part in (PAPER, CURRENT)),
        Cell(f"× {rival.seconds / first.seconds:.1f}"),
        Cell(f"{over(lambda one, _: bytes_a_fact(one)).mean:.0f}"),
    )


def _pairs(one: str, other: str, group: Sequence[Line]) -> list[Pair]:
    """The runs of both with the same seeds."""
    runs = {line.entrant.name: {run.seed: run for run in line.system.runs} for line in group}
    mine, theirs = runs.get(one, {}), runs.get(other, {})
    return [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]


def bytes_a_fact(run: Results) -> float:
    """What is carried after the last snapshot, by the facts that have been learned."""
    facts = sum(record.train_facts for record in run.snapshots)
    return run.snapshots[-1].carried_bytes / max(1, facts)


def _signed(value: Spread) -> str:
    """A difference with its sign, and its deviation where there is one."""
    deviation = f" ±{text.number(value.deviation)}" if not math.isnan(value.deviation) else ""
    return signed(value.mean) + deviation
