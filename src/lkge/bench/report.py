"""What a study gives: README.md, the figures, and one page, all from the kept JSON files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lkge.bench import tables
from lkge.bench.comparison import LARGE, Line, agreement, lines_of
from lkge.bench.duel import duel
from lkge.bench.kept import kept_cells, results_in
from lkge.bench.study import STUDIES, Cell, Study
from lkge.data.files import write_text_atomically
from lkge.errors import RunError
from lkge.evaluation.results import Results
from lkge.reports import figures, text
from lkge.reports.drawing import save
from lkge.reports.page import write_page
from lkge.reports.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {
    "figure-3-mrr-change": "MRR change: each line is a model on the test sets of its own and all "
    "earlier snapshots.",
    "figure-4-transfer": "Forward and backward transfer of MRR, `paper` protocol.",
    "figure-5-time": "Cumulative time to learn, validation included, tests excluded.",
    "mrr-over-time": "MRR on the tests so far over the time to learn, a point for each snapshot.",
}
"""Figures by the names of their files, and what is said below them; the first three are the
paper's."""

INTRODUCTION = """\
`lkge bench {study}` writes this page, the figures and [index.html](index.html) from the JSON files
beside it, which hold the settings and all figures of each run. MRR and Hits are those of the last
model on the union of all test sets in the `paper` protocol; *MRR current* is in the `current`
protocol. In brackets, or as *Printed*: what the paper prints. With several seeds: mean ±
standard deviation. Bold: the best MRR of the lifelong systems; Re-train keeps all facts and is a
reference. *Time* is for training with validation, one thread; *Carried* is the most that a method
keeps beside the tables. The rank correlation is Spearman's, between our order by MRR, to three
decimals as in print, and print."""

MOST_NAMED = 20
"""Runs that are still to be made, by name."""


def write_study(study: Study, folder: Path) -> Path:
    """Write `README.md`, `figures/` and `index.html` from the JSON files of `folder`; the page."""
    kept = kept_cells(study, folder)
    if not kept:
        raise RunError(f"{folder}: no run of the study {study.name!r} is kept here yet")
    drawn = draw(study, kept)
    for stem, figure in drawn.items():
        save(figure, folder / "figures", stem)
    write_text_atomically(folder / "README.md", readme(study, kept, list(drawn)))
    write_page(results_in(folder), folder / "index.html")
    return folder / "index.html"


def draw(study: Study, kept: Mapping[Cell, Results]) -> dict[str, Figure]:
    """Figures 3, 4 and 5, and MRR over time, as far as there are runs for them. Ablations are in
    none of them. MRR over time is that of the first seed, whose runs are made one after the other.
    """
    whole = {cell: run for cell, run in kept.items() if not cell.entrant.is_variant}
    changed = [run for cell, run in whole.items() if cell.entrant.name == study.mrr_change_of]
    timed = [run for cell, run in whole.items() if study.time_on in (None, cell.dataset)]
    raced = [
        run
        for cell, run in whole.items()
        if cell.entrant.name in study.race and cell.config.training.seed == study.seeds[0]
    ]
    drawings = (
        (figures.mrr_over_snapshots, changed),
        (figures.transfer_by_method, list(whole.values())),
        (figures.cumulative_time, timed),
        (figures.mrr_over_time, raced),
    )
    return {
        stem: figure(runs) for stem, (figure, runs) in zip(FIGURES, drawings, strict=True) if runs
    }


def readme(study: Study, kept: Mapping[Cell, Results], drawn: Sequence[str]) -> str:
    """The tables and figures in Markdown."""
    lines = lines_of(study, kept)
    parts = [_part(title, part) for title, part in tables.divided(study, lines).items()]
    whole = [_introduction(study), _missing(study, kept), _duel(study, lines), *parts]
    whole.append(_figures(drawn))
    return "\n\n".join(filter(None, [*whole, _differences(lines)])) + "\n"


def kept_lines(study: Study, folder: Path) -> dict[str, list[Line]]:
    """By dataset, the systems of which a run is kept in `folder`."""
    return lines_of(study, kept_cells(study, folder))


def _introduction(study: Study) -> str:
    name = study.name if study.name in STUDIES else f"{study.name}.toml"
    config = ", ".join(f"{key} {value}" for key, value in study.config.items())
    common = f"Settings of every run: {config}." if config else ""
    parts = [f"# {study.title}", INTRODUCTION.format(study=name), common, study.notes.strip()]
    return "\n\n".join(filter(None, parts))


def _missing(study: Study, kept: Mapping[Cell, Results]) -> str:
    names = [cell.name for cell in study.cells() if cell not in kept]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"Not run yet: {', '.join(names[:MOST_NAMED])}{more}." if names else ""


def _part(title: str, lines: tables.Lines) -> str:
    sections = [f"## {title}", markdown_table(tables.overview(title, lines)).strip()]
    for dataset, group in lines.items():
        sections += [f"### {dataset}", markdown_table(tables.in_full(dataset, group)).strip()]
        sections += [*_agreement(group), *_notes(group)]
    return "\n\n".join(sections)


def _duel(study: Study, lines: tables.Lines) -> str:
    """The two systems that are compared seed by seed, where both have runs."""
    if study.duel is None:
        return ""
    grid = duel(*study.duel, lines)
    return f"## {grid.title}\n\n{markdown_table(grid).strip()}" if grid.sections else ""


def _agreement(group: Sequence[Line]) -> list[str]:
    known = [line for line in group if line.printed]
    value = agreement(known)
    return [f"Rank correlation over {len(known)} systems: {text.number(value)}."] if known else []


def _notes(group: Sequence[Line]) -> list[str]:
    """What systems have to say of their last snapshot."""
    last = [(line.system.name, line.system.runs[0].snapshots[-1:]) for line in group]
    notes = [
        f"* {name}: {record.note}" for name, records in last for record in records if record.note
    ]
    return ["\n".join(["After the last snapshot:", "", *notes])] if notes else []


def _figures(drawn: Sequence[str]) -> str:
    shown = [f"![{FIGURES[stem]}](figures/{stem}.png)\n\n*{FIGURES[stem]}*" for stem in drawn]
    return "\n\n".join(["## Figures", *shown]) if shown else ""


def _differences(lines: tables.Lines) -> str:
    if not any(line.printed for group in lines.values() for line in group):
        return ""
    grid = tables.differences(lines)
    title = f"## MRR more than {LARGE} from print"
    return f"{title}\n\n{markdown_table(grid).strip() if grid.sections[0] else 'None.'}"
