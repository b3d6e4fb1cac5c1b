"""The files in `tables/`: each table of the report as LaTeX, and all numbers, not rounded, as CSV.

runs.csv         each run and protocol: the measures of the last model
systems.csv      each system and measure: mean, deviation and interval over seeds
differences.csv  the first system minus each other one
cells.csv        each run, protocol, model and test set
relations.csv    each run, protocol and relation
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path

from lkge.data.files import write_text_atomically
from lkge.evaluation.results import PROTOCOLS, OfRelation, OfTest, Results
from lkge.reports.comparison import Difference, differences
from lkge.reports.grids import Grid
from lkge.reports.latex import latex_table
from lkge.reports.systems import COSTS, MEASURES, Spread, System, systems_of

Values = Sequence[object]
RUN = ("dataset", "system", "seed")


def write(
    results: Sequence[Results], grids: Iterable[Grid], folder: Path, reference: str | None = None
) -> None:
    """Write `grids` as LaTeX, and the numbers of the results as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, grid in _named(grids).items():
        write_text_atomically(folder / f"{stem}.tex", latex_table(grid))
    systems = systems_of(results)
    for stem, (columns, rows) in {
        "runs": _runs(systems),
        "systems": _systems(systems),
        "differences": _differences(systems, reference),
        "cells": ((*RUN, *OfTest._fields), _rows(systems, Results.cells)),
        "relations": ((*RUN, *OfRelation._fields), _rows(systems, Results.by_relation)),
    }.items():
        write_text_atomically(folder / f"{stem}.csv", csv_text(columns, rows))


def csv_text(columns: Sequence[str], rows: Iterable[Values]) -> str:
    """A header and rows; a number that is not there (nan) is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_known, rows))
    return out.getvalue()


def _known(row: Values) -> list[object]:
    return ["" if isinstance(v, float) and math.isnan(v) else v for v in row]


def _runs(systems: Iterable[System]) -> tuple[tuple[str, ...], list[Values]]:
    measures = {protocol: (*MEASURES[protocol], *COSTS) for protocol in PROTOCOLS}
    keys = (measure.key for measure in measures[PROTOCOLS[0]])
    return (*RUN, "code", "protocol", *keys), [
        (*_run(system, run), system.code, protocol, *(each.of(run) for each in measures[protocol]))
        for system in systems
        for run in system.runs
        for protocol in PROTOCOLS
    ]


def _systems(systems: Iterable[System]) -> tuple[tuple[str, ...], list[Values]]:
    measures = [
        *((protocol, measure) for protocol in PROTOCOLS for measure in MEASURES[protocol]),
        *(("", measure) for measure in COSTS),
    ]
    columns = ("dataset", "system", "seeds", "protocol", "measure", *Spread._fields)
    return columns, [
        (each.dataset, each.name, len(each.runs), protocol, measure.key, *each.spread(measure))
        for each in systems
        for protocol, measure in measures
    ]


def _differences(
    systems: Sequence[System], reference: str | None
) -> tuple[tuple[str, ...], list[Values]]:
    found = (d for protocol in PROTOCOLS for d in differences(systems, protocol, reference))
    return tuple(field.name for field in fields(Difference)), [astuple(each) for each in found]


def _rows(systems: Iterable[System], of: Callable[[Results], Iterable[Values]]) -> list[Values]:
    return [
        (*_run(system, run), *row) for system in systems for run in system.runs for row in of(run)
    ]


def _run(system: System, run: Results) -> Values:
    return system.dataset, system.name, "" if run.seed is None else run.seed


def _named(grids: Iterable[Grid]) -> dict[str, Grid]:
    """File names from the titles, in plain letters; the same ones are numbered."""
    named: dict[str, Grid] = {}
    for grid in grids:
        words = re.sub(r"[^a-z0-9]+", "-", grid.title.lower()).strip("-")[:80] or "table"
        taken = sum(1 for stem in named if re.fullmatch(rf"{words}(-\d+)?", stem))
        named[f"{words}-{taken + 1}" if taken else words] = grid
    return named
