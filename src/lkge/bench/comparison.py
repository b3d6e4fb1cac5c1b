"""What was found beside what was printed: differences, and whether the orders agree."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lkge.bench.study import Cell, Entrant, Study, short_name
from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports.systems import MEASURES, System, systems_of

MRR = MEASURES[PROTOCOLS[0]][0]
LARGE = 0.02
"""A difference of MRR beyond this wants an explanation."""


@dataclass(frozen=True)
class Line:
    """A system on a dataset, and what was printed of it: mrr, hits1, hits3, hits10, or nothing."""

    entrant: Entrant
    system: System
    printed: Mapping[str, float]

    @property
    def mrr(self) -> float:
        """As tables show it: three decimals."""
        return round(self.system.spread(MRR).mean, 3)

    @property
    def difference(self) -> float:
        """Ours less printed, of MRR; nan where nothing was printed."""
        return round(self.mrr - self.printed.get("mrr", math.nan), 3)


def lines_of(study: Study, kept: Mapping[Cell, Results]) -> dict[str, list[Line]]:
    """By dataset, a line for each system of which a run is kept, in the order of the study."""
    groups: dict[str, dict[Entrant, list[Results]]] = {
        short_name(dataset): {} for dataset in study.datasets
    }
    for cell, results in kept.items():
        groups[cell.dataset].setdefault(cell.entrant, []).append(results)
    return {dataset: _lines(study, dataset, group) for dataset, group in groups.items() if group}


def _lines(study: Study, dataset: str, group: Mapping[Entrant, Sequence[Results]]) -> list[Line]:
    """The systems of one dataset, named in view of others of their group."""
    runs_of: dict[str, list[Results]] = {}
    for entrant, runs in group.items():
        runs_of.setdefault(entrant.group, []).extend(runs)
    systems = [system for runs in runs_of.values() for system in systems_of(runs)]
    system_of = {id(run): system for system in systems for run in system.runs}
    return [
        Line(entrant, system_of[id(runs[0])], study.printed.get(entrant.name, {}).get(dataset, {}))
        for entrant, runs in group.items()
    ]


def far_from_print(lines: Iterable[Line]) -> list[Line]:
    """The lines whose MRR differs from print by more than `LARGE`, as tables show it."""
    return [line for line in lines if abs(line.difference) > LARGE + 1e-9]


def agreement(lines: Iterable[Line]) -> float:
    """Rank correlation between our order by MRR and the printed one."""
    known = [line for line in lines if line.printed]
    return rank_correlation([line.mrr for line in known], [line.printed["mrr"] for line in known])


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's ρ: the correlation of the ranks; nan where there is no order to compare."""
    if min(len(set(first)), len(set(second))) < 2:
        return math.nan
    return statistics.correlation(ranks(first), ranks(second))


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1; equal values share the mean of their ranks."""
    order = sorted(values)
    return [order.index(value) + (order.count(value) + 1) / 2 for value in values]
