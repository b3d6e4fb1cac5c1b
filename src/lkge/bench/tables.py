"""The tables of a study: all of it at a glance, and each dataset in full."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

from lkge.bench.comparison import MRR, Line, agreement, far_from_print
from lkge.bench.study import Study
from lkge.evaluation.results import PROTOCOLS
from lkge.reports import text
from lkge.reports.systems import COSTS, MEASURES, Measure, best_text
from lkge.reports.tables import Cell, Grid, Row, measure_cell, summary_rows

PAPER, CURRENT = (MEASURES[protocol] for protocol in PROTOCOLS)
HITS, TRANSFER = PAPER[1:4], PAPER[4:6]

Lines = Mapping[str, Sequence[Line]]
"""By dataset, the systems that have a run."""


def divided(study: Study, lines: Lines) -> dict[str, dict[str, list[Line]]]:
    """By title: each group; the systems of none; and where some have variants, these beside the
    whole."""
    groups: dict[str, set[str]] = {}
    for each in study.entrants.values():
        groups.setdefault(each.group, set()).add(each.name)
    entrants = [study.entrants[name] for name in groups.pop("", set())]
    parted = {each.method for each in entrants if each.is_variant}
    systems = _only(lines, {each.name for each in entrants if not each.is_variant})
    variants = _only(lines, {each.name for each in entrants if each.method in parted})
    tables = {title: _only(lines, names) for title, names in groups.items()}
    tables[study.systems_title] = systems
    if any(line.entrant.is_variant for group in variants.values() for line in group):
        tables[study.variants_title] = variants
    return {title: table for title, table in tables.items() if table}


def overview(title: str, lines: Lines) -> Grid:
    """MRR of each system on each dataset, and in brackets what was printed."""
    champions = {dataset: best_text([x.system for x in g], MRR) for dataset, g in lines.items()}
    names = {line.entrant.name: line.system.name for group in lines.values() for line in group}

    def cell(name: str, dataset: str) -> Cell:
        for line in lines[dataset]:
            if line.entrant.name == name:
                return _beside_print(line, MRR, champions[dataset])
        return Cell(text.ABSENT)

    rows = [(Cell(names[name]), *(cell(name, dataset) for dataset in lines)) for name in names]
    sections = [tuple(rows)]
    if any(line.printed for group in lines.values() for line in group):
        orders = (Cell(text.number(agreement(group))) for group in lines.values())
        sections.append(((Cell("rank correlation"), *orders),))
    return Grid(title, ("System", *lines), tuple(sections))


def in_full(dataset: str, lines: Sequence[Line]) -> Grid:
    """One dataset: every figure of each system, and what was printed, if anything was."""
    champion = best_text([line.system for line in lines], MRR)
    others = (CURRENT[0], *TRANSFER, CURRENT[5])
    is_printed = any(line.printed for line in lines)

    def printed(line: Line) -> Row:
        return (
            Cell(text.number(line.printed.get(MRR.key, math.nan))),
            Cell(signed(line.difference)),
        )

    def row(line: Line) -> Row:
        return (
            Cell(line.system.name),
            Cell(str(len(line.system.runs))),
            measure_cell(line.system, MRR, champion),
            *(printed(line) if is_printed else ()),
            *(_beside_print(line, measure, None) for measure in HITS),
            *(measure_cell(line.system, measure, None) for measure in others),
            *(Cell(measure.text(line.system.spread(measure).mean)) for measure in COSTS),
        )

    columns = (
        *("System", "Seeds", "MRR"),
        *(("Printed", "Difference") if is_printed else ()),
        *(measure.title for measure in HITS),
        *("MRR current", *(measure.title for measure in TRANSFER), "BWT current"),
        *(measure.title for measure in COSTS),
    )
    return Grid(dataset, columns, (tuple(map(row, lines)),))


def differences(lines: Lines) -> Grid:
    """Every MRR that is far from the printed one."""
    rows = tuple(
        (
            Cell(dataset),
            Cell(line.system.name),
            Cell(text.number(line.mrr)),
            Cell(text.number(line.printed["mrr"])),
            Cell(signed(line.difference)),
        )
        for dataset, group in lines.items()
        for line in far_from_print(group)
    )
    columns = ("Dataset", "System", "MRR", "Printed", "Difference")
    return Grid("Differences", columns, (rows,), names=2)


def plain(lines: Lines) -> dict[str, Any]:
    """All of it for JSON."""
    return {
        "systems": [
            {**row, "printed": dict(line.printed), "difference": line.difference}
            for group in lines.values()
            for line in group
            for row in summary_rows(line.system.runs)
        ],
        "rank_correlation": {dataset: agreement(group) for dataset, group in lines.items()},
    }


def signed(value: float) -> str:
    """A difference with its sign."""
    return f"+{text.number(value)}" if value > 0 else text.number(value)


def _only(lines: Lines, names: Set[str]) -> dict[str, list[Line]]:
    """The lines of the systems of these names, where a dataset has any."""
    found = {d: [x for x in group if x.entrant.name in names] for d, group in lines.items()}
    return {dataset: group for dataset, group in found.items() if group}


def _beside_print(line: Line, measure: Measure, champion: str | None) -> Cell:
    """A measure, and in brackets what was printed of it."""
    found = measure_cell(line.system, measure, champion)
    if measure.key not in line.printed:
        return found
    return Cell(f"{found.text} ({text.number(line.printed[measure.key])})", best=found.best)
