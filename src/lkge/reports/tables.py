"""Results as rows for JSON, and as tables for the terminal and for Markdown.

Each table is first a `Grid` of texts, so that all outputs show the same figures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lkge.evaluation.results import PROTOCOLS, Results, SnapshotRecord
from lkge.provenance import UNRECORDED, codes_of, machine_of
from lkge.reports import text
from lkge.reports.systems import (
    COSTS,
    MEASURES,
    Measure,
    Spread,
    System,
    best_text,
    by_dataset,
    systems_of,
)

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


@dataclass(frozen=True)
class Cell:
    """A text; `best` of its column (bold), or `faint`."""

    text: str
    best: bool = False
    faint: bool = False


Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Grid:
    """A table: rows in sections. The first `names` columns hold names, the others numbers."""

    title: str
    columns: tuple[str, ...]
    sections: tuple[tuple[Row, ...], ...]
    names: int = 1
    note: str = ""


def summary_rows(results: Iterable[Results]) -> list[dict[str, Any]]:
    """One tree for each system, for JSON: an unknown number is None, not nan."""
    return [_summary_row(system) for system in systems_of(results)]


def _summary_row(system: System) -> dict[str, Any]:
    def tree(measures: Iterable[Measure]) -> dict[str, dict[str, float | None]]:
        return {measure.key: _plain(system.spread(measure)) for measure in measures}

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


def _plain(spread: Spread) -> dict[str, float | None]:
    return {
        "mean": None if math.isnan(spread.mean) else spread.mean,
        "deviation": None if math.isnan(spread.deviation) else spread.deviation,
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
    rows = [
        (Cell(system.name), *(measure_cell(system, m, best[m]) for m in measures))
        for system in systems
    ]
    notes = (_seeds_note(systems), code_note([run for each in systems for run in each.runs]))
    return with_codes(
        Grid(
            title=f"{dataset}, {protocol} protocol",
            columns=("Method", *(measure.title for measure in measures)),
            sections=(tuple(rows),),
            note=" ".join(filter(None, notes)),
        ),
        [[system] for system in systems],
    )


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
    results = list(results)
    codes = dict.fromkeys(code for run in results for code in codes_of(run.provenance))
    if list(codes) == [UNRECORDED]:
        return "Code: unrecorded (these results were made before provenance was recorded)."
    if len(codes) > 1:
        return "Several versions of the code made these results: see Code."
    machines = dict.fromkeys(machine_of(run.provenance) for run in results)
    return "; ".join(filter(None, [f"Code: {', '.join(codes)}", *machines])) + "."


def measure_cell(system: System, measure: Measure, best: str | None) -> Cell:
    """`mean ±deviation` of a measure; bold if the mean as printed is `best`."""
    spread = system.spread(measure)
    words = measure.text(spread.mean) + deviation_text(spread, measure)
    return Cell(words, best=system.is_best(measure, best))


def deviation_text(spread: Spread, measure: Measure) -> str:
    """` ±0.002`, or nothing for a single run."""
    return "" if math.isnan(spread.deviation) else f" ±{measure.text(spread.deviation)}"


def _seeds_note(systems: Sequence[System]) -> str:
    if max(len(system.runs) for system in systems) == 1:
        return ""
    return "Mean ± standard deviation over runs that differ in their seed."


def matrix_grid(system: System, protocol: str) -> Grid:
    """MRR of M_i (rows) on Q_j (columns); above the diagonal, faint, forward transfer."""
    matrix, forward = system.matrix(protocol), system.forward(protocol)
    width = max(map(len, matrix), default=0)
    return Grid(
        title=f"MRR h[i, j], {protocol} protocol",
        columns=("", *map(text.queries, range(width))),
        sections=(
            tuple(
                (Cell(text.model(i)), *_matrix_row(row, forward[i : i + 1], width))
                for i, row in enumerate(matrix)
            ),
        ),
        note="Faint, right of the diagonal: before training on that snapshot (forward transfer).",
    )


def _matrix_row(row: Sequence[float], ahead: Sequence[float], width: int) -> list[Cell]:
    learned = [Cell(text.number(value)) for value in row]
    transferred = [Cell(text.number(value), faint=True) for value in ahead]
    cells = [*learned, *transferred][:width]
    return cells + [Cell("")] * (width - len(cells))


def snapshot_grid(run: Results) -> Grid:
    """How each snapshot was learned."""
    return Grid(
        title="Snapshots",
        columns=(
            *("#", "New facts", "Entities", "Relations", "Epochs", "Best epoch"),
            *("Valid MRR", "Time", "Valid share", "Carried"),
        ),
        sections=(tuple(_snapshot_row(record) for record in run.snapshots),),
        note="Valid share: validation / time. Carried: what the method keeps for later snapshots.",
    )


def _snapshot_row(record: SnapshotRecord) -> Row:
    share = record.validation_seconds / record.seconds if record.seconds else math.nan
    texts = (
        str(record.index + 1),
        text.count(record.new_facts),
        text.count(record.entities),
        text.count(record.relations),
        text.count(record.epochs),
        text.count(record.best_epoch),
        text.number(record.valid_mrr),
        text.duration(record.seconds),
        text.percent(share),
        text.size(record.carried_bytes),
    )
    return tuple(map(Cell, texts))


def terminal_tables(results: Sequence[Results]) -> list[Table]:
    """The summary, and for a single run also its matrices and its snapshots."""
    grids = summary_grids(results)
    if len(results) == 1:
        (system,) = systems_of(results)
        grids += [matrix_grid(system, protocol) for protocol in PROTOCOLS]
        grids.append(snapshot_grid(results[0]))
    return [rich_table(grid) for grid in grids]


def rich_table(grid: Grid) -> Table:
    """The grid for a `rich` console. Names are not parsed as markup."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(grid.title, style="bold"),
        caption=Text(f"{grid.note}\n", style="dim") if grid.note else None,
        title_justify="left",
        caption_justify="left",
        header_style="bold cyan",
        border_style="dim",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for position, column in enumerate(grid.columns):
        if position < grid.names:
            table.add_column(Text(column), overflow="fold")
        else:
            table.add_column(Text(column.replace(" ", "\n")), justify="right", no_wrap=True)
    for section in grid.sections:
        for row in section:
            table.add_row(*(_rich_cell(cell) for cell in row))
        table.add_section()
    return table


def _rich_cell(cell: Cell) -> Text:
    """The text, a deviation below its mean."""
    from rich.text import Text

    return Text(cell.text.replace(" ±", "\n±"), style=_rich_style(cell))


def _rich_style(cell: Cell) -> str:
    if cell.best:
        return "bold green"
    return "dim" if cell.faint else ""


def markdown(results: Iterable[Results]) -> str:
    """The summary of all datasets as Markdown."""
    return "\n".join(
        f"## {_markdown_text(grid.title)}\n\n{markdown_table(grid)}"
        for grid in summary_grids(results)
    )


def markdown_table(grid: Grid) -> str:
    """The grid as a Markdown table, the best in bold, and its note below."""
    rows = [row for section in grid.sections for row in section]
    rules = ["---" if position < grid.names else "---:" for position in range(len(grid.columns))]
    lines = [
        _markdown_row(map(_markdown_text, grid.columns)),
        _markdown_row(rules),
        *(_markdown_row(map(_markdown_cell, row)) for row in rows),
    ]
    note = f"\n{_markdown_text(grid.note)}\n" if grid.note else ""
    return "\n".join(lines) + "\n" + note


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    escaped = _markdown_text(cell.text)
    return f"**{escaped}**" if cell.best else escaped


def _markdown_text(words: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#~&!])", r"\\\1", words)
