"""Results as rows for JSON, and as tables for the terminal and for Markdown.

Each table is first a `Grid` of texts, so that all outputs show the same figures.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from lkge.evaluation.results import PROTOCOLS, Results, SnapshotRecord, nan_to_none
from lkge.provenance import UNRECORDED, codes_of, machine_of
from lkge.reports import text
from lkge.reports.comparison import differences
from lkge.reports.grids import Cell, Grid, grid_of, markdown_table, markdown_text, rich_table
from lkge.reports.relations import relation_grid
from lkge.reports.seeds import difference_grids, interval_grids
from lkge.reports.systems import COSTS, MEASURES, Measure, System, best_text, by_dataset, systems_of


def plain(results: Sequence[Results]) -> dict[str, Any]:
    """The report for JSON: the systems, and the first minus each other one of its dataset."""
    systems = systems_of(results)
    found = [nan_to_none(d) for protocol in PROTOCOLS for d in differences(systems, protocol)]
    return {"systems": summary_rows(results), "differences": found}


def summary_rows(results: Iterable[Results]) -> list[dict[str, Any]]:
    """One tree for each system, for JSON: an unknown number is None, not nan."""
    return [nan_to_none(_summary_row(system)) for system in systems_of(results)]


def _summary_row(system: System) -> dict[str, Any]:
    def tree(measures: Iterable[Measure]) -> dict[str, Any]:
        return {measure.key: system.spread(measure)._asdict() for measure in measures}

    return {
        "dataset": system.dataset,
        "method": system.runs[0].method,
        "system": system.name,
        "seeds": system.seeds,
        "code": system.code,
        "snapshots": max(len(run.snapshots) for run in system.runs),
        **{protocol: tree(MEASURES[protocol]) for protocol in PROTOCOLS},
        **tree(COSTS),
    }


def summary_grids(results: Iterable[Results]) -> list[Grid]:
    """A grid for each dataset and protocol, with a row for each system."""
    return [
        _summary_grid(dataset, systems, protocol)
        for dataset, systems in by_dataset(systems_of(results)).items()
        for protocol in PROTOCOLS
    ]


def _summary_grid(dataset: str, systems: Sequence[System], protocol: str) -> Grid:
    measures = (*MEASURES[protocol], *COSTS)
    best = {measure: best_text(systems, measure) for measure in measures}
    rows = [(Cell(s.name), *(measure_cell(s, m, best[m]) for m in measures)) for s in systems]
    columns = ("Method", *(measure.title for measure in measures))
    notes = [code_note(run for system in systems for run in system.runs)]
    if any(len(system.runs) > 1 for system in systems):
        notes.insert(0, "Mean ± standard deviation over runs that differ in their seed.")
    grid = grid_of(f"{dataset}, {protocol} protocol", columns, rows, note=" ".join(notes))
    return with_codes(grid, [[system] for system in systems])


def mixes_codes(systems: Iterable[System]) -> bool:
    """Whether more than one version of the code made the runs of the systems."""
    runs = (run for system in systems for run in system.runs)
    return len({code for run in runs for code in codes_of(run.provenance)}) > 1


def with_codes(grid: Grid, rows: Sequence[Sequence[System]]) -> Grid:
    """The grid with a last column "Code" if its systems mix versions of the code, else the grid.

    `rows`: the systems of each row of the first section; the other sections have no code.
    """
    if not mixes_codes(system for row in rows for system in row):
        return grid
    codes = [", ".join(dict.fromkeys(system.code for system in row)) for row in rows]
    first, *others = grid.sections
    sections = (
        tuple((*row, Cell(code)) for row, code in zip(first, codes, strict=True)),
        *(tuple((*row, Cell("")) for row in section) for section in others),
    )
    return replace(grid, columns=(*grid.columns, "Code"), sections=sections)


def code_note(results: Iterable[Results]) -> str:
    """A line that says which code, libraries and machine made the results."""
    return provenance_note(run.provenance for run in results)


def provenance_note(found: Iterable[Mapping[str, Any]]) -> str:
    """The same from the provenance of each result."""
    provenances = list(found)
    codes = dict.fromkeys(code for each in provenances for code in codes_of(each))
    if list(codes) == [UNRECORDED]:
        return "Code: unrecorded (these results were made before provenance was recorded)."
    if len(codes) > 1:
        return "Several versions of the code made these results: see Code."
    machines = dict.fromkeys(map(machine_of, provenances))
    return "; ".join(filter(None, [f"Code: {', '.join(codes)}", *machines])) + "."


def measure_cell(system: System, measure: Measure, best: str | None = None) -> Cell:
    """`mean ±deviation` of a measure; bold if the mean as printed is `best`."""
    spread = system.spread(measure)
    words = measure.text(spread.mean) + measure.deviation(spread)
    return Cell(words, best=system.is_best(measure, best))


def matrix_grid(system: System, protocol: str) -> Grid:
    """MRR of M_i (rows) on Q_j (columns); above the diagonal, faint, forward transfer."""
    matrix, forward = system.matrix(protocol), system.forward(protocol)
    width = max(map(len, matrix), default=0)
    rows = []
    for i, row in enumerate(matrix):
        cells = [Cell(text.number(value)) for value in row]
        cells += [Cell(text.number(value), faint=True) for value in forward[i : i + 1]]
        rows.append([Cell(text.model(i)), *(cells + [Cell("")] * width)[:width]])
    columns = ("", *map(text.queries, range(width)))
    note = "Faint, right of the diagonal: before training on that snapshot (forward transfer)."
    return grid_of(f"MRR h[i, j], {protocol} protocol", columns, rows, note=note)


def snapshot_grid(run: Results) -> Grid:
    """How each snapshot was learned."""
    columns = (
        *("#", "New facts", "Entities", "Relations", "Epochs", "Best epoch"),
        *("Valid MRR", "Time", "Valid share", "Carried"),
    )
    note = "Valid share: validation / time. Carried: what the method keeps for later snapshots."
    return grid_of("Snapshots", columns, map(_snapshot_row, run.snapshots), note=note)


def _snapshot_row(record: SnapshotRecord) -> list[str]:
    share = record.validation_seconds / record.seconds if record.seconds else math.nan
    counts = (record.new_facts, record.entities, record.relations, record.epochs)
    return [
        str(record.index + 1),
        *map(text.count, (*counts, record.best_epoch)),
        text.number(record.valid_mrr),
        text.duration(record.seconds),
        text.percent(share),
        text.size(record.carried_bytes),
    ]


def report_grids(results: Sequence[Results], reference: str | None = None) -> list[Grid]:
    """The summary, the intervals over seeds, and the differences between systems."""
    systems = systems_of(results)
    tested = [*interval_grids(systems), *difference_grids(systems, reference)]
    return [*summary_grids(results), *tested]


def system_grids(system: System) -> list[Grid]:
    """The matrices of a system, and its relations if the results have them."""
    relations = relation_grid(system)
    matrices = [matrix_grid(system, protocol) for protocol in PROTOCOLS]
    return [*matrices, *([relations] if relations else [])]


def terminal_tables(results: Sequence[Results]) -> list[Table]:
    """The tables of the report, and for a single run also those of its system and snapshots."""
    grids = report_grids(results)
    if len(results) == 1:
        (system,) = systems_of(results)
        grids += [*system_grids(system), snapshot_grid(results[0])]
    return [rich_table(grid) for grid in grids]


def markdown(results: Sequence[Results]) -> str:
    """The tables of the report as Markdown, and for a single system also its relations."""
    systems = systems_of(results)
    relations = [relation_grid(system) for system in systems] if len(systems) == 1 else []
    grids = [*report_grids(results), *filter(None, relations)]
    return "\n".join(f"## {markdown_text(g.title)}\n\n{markdown_table(g)}" for g in grids)
