"""The report of a study: README.md, figures and one HTML page, from the stored JSON files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from lkge.data.files import write_text_atomically
from lkge.errors import RunError
from lkge.evaluation.results import Results
from lkge.reports import figures, table_files, text
from lkge.reports.grids import Grid, markdown_table, notes_once
from lkge.reports.page import write_page
from lkge.reports.plot_style import render
from lkge.reports.seeds import difference_grids, interval_grids
from lkge.reports.tables import code_note
from lkge.studies import tables
from lkge.studies.result_store import results_in, stored_runs
from lkge.studies.study import STUDIES, RunSpec, Study
from lkge.studies.tables import LARGE, Entry, entries_of

FIGURES = {
    "figure-3-mrr-change": "MRR change: each line is a model on the test sets of its own and all "
    "earlier snapshots.",
    "figure-4-transfer": "Forward and backward transfer of MRR, `paper` protocol.",
    "figure-5-time": "Cumulative time to learn, validation included, tests excluded.",
    "mrr-over-time": "MRR on the tests so far over the time to learn, a point for each snapshot.",
}
"""Captions by file name. The first three figures are those of the paper."""

INTRODUCTION = """\
`lkge bench {study}` writes this page, the figures and [index.html](index.html) from the JSON files
in this folder. Each JSON file has the settings and all figures of one run. MRR and Hits: the last
model on the union of all test sets in the `paper` protocol. *MRR current*: in the `current`
protocol. In brackets, or as *Printed*: the figure of the paper. With several seeds: mean ±
standard deviation. Bold: the best MRR of the lifelong systems; Re-train keeps all facts and is a
reference. *Time*: training with validation, one thread. *Carried*: the most bytes that a method
keeps from one snapshot to the next, without the embeddings. Rank correlation: Spearman's ρ between
the order by MRR and the order by printed MRR."""

MOST_NAMED = 20
"""The most missing runs that are named."""


def write_study(study: Study, folder: Path) -> Path:
    """Write `README.md`, `figures/`, `tables/` and `index.html` into `folder`; the path of the
    page."""
    stored = stored_runs(study, folder)
    if not stored:
        raise RunError(f"{folder}: no run of the study {study.name!r} is stored here")
    drawn = draw(study, stored)
    for stem, figure in drawn.items():
        render(figure, stem).write(folder / "figures")
    write_text_atomically(folder / "README.md", readme(study, stored, list(drawn)))
    entries = entries_of(study, stored)
    grids = [*_tables(study, entries), *_tested(study, entries)]
    reference = _reference(study, [entry for group in entries.values() for entry in group])
    table_files.write(list(stored.values()), grids, folder / "tables", reference)
    write_page(results_in(folder), folder / "index.html", reference)
    return folder / "index.html"


def draw(study: Study, stored: Mapping[RunSpec, Results]) -> dict[str, Figure]:
    """Figures 3, 4 and 5 of the paper, and MRR over time (first seed), where there are runs that
    are no variants."""
    whole = {spec: run for spec, run in stored.items() if not spec.spec.is_variant}

    def of(systems: Sequence[str], seeds: Sequence[int] = ()) -> list[Results]:
        return [
            run
            for spec, run in whole.items()
            if spec.spec.name in systems and (not seeds or spec.config.training.seed in seeds)
        ]

    timed = [run for spec, run in whole.items() if study.time_on in (None, spec.dataset)]
    drawings = (
        (figures.mrr_over_snapshots, of([study.mrr_change_of])),
        (figures.transfer_by_method, list(whole.values())),
        (figures.cumulative_time, timed),
        (figures.mrr_over_time, of(study.mrr_over_time_of, study.seeds[:1])),
    )
    drawn = zip(FIGURES, drawings, strict=True)
    return {stem: figure(runs) for stem, (figure, runs) in drawn if runs}


def readme(study: Study, stored: Mapping[RunSpec, Results], drawn: Sequence[str]) -> str:
    """The tables and figures in Markdown."""
    entries = entries_of(study, stored)
    parts = [_part(title, part) for title, part in tables.divided(study, entries).items()]
    whole = [
        _introduction(study),
        code_note(stored.values()),
        _missing(study, stored),
        _paired(study, entries),
        *parts,
        *(
            f"## {grid.title}\n\n{markdown_table(grid).strip()}"
            for grid in notes_once(_tested(study, entries))
        ),
        _figures(drawn),
        _differences(entries),
    ]
    return "\n\n".join(filter(None, whole)) + "\n"


def stored_entries(study: Study, folder: Path) -> dict[str, list[Entry]]:
    """By dataset, the systems with results in `folder`."""
    return entries_of(study, stored_runs(study, folder))


def _introduction(study: Study) -> str:
    name = study.name if study.name in STUDIES else f"{study.name}.toml"
    config = ", ".join(f"{key} {value}" for key, value in study.settings.items())
    common = f"Settings of every run: {config}." if config else ""
    parts = [f"# {study.title}", INTRODUCTION.format(study=name), common, study.notes.strip()]
    return "\n\n".join(filter(None, parts))


def _missing(study: Study, stored: Mapping[RunSpec, Results]) -> str:
    names = [run.name for run in study.run_specs() if run not in stored]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"Not run yet: {', '.join(names[:MOST_NAMED])}{more}." if names else ""


def _part(title: str, entries: tables.Entries) -> str:
    sections = [f"## {title}", markdown_table(tables.overview(title, entries)).strip()]
    for dataset, group in entries.items():
        sections += [f"### {dataset}", markdown_table(tables.in_full(dataset, group)).strip()]
        if known := [entry for entry in group if entry.printed]:
            value = text.number(tables.agreement(known))
            sections.append(f"Rank correlation over {len(known)} systems: {value}.")
        if notes := _notes(group):
            sections.append("\n".join(["After the last snapshot:", "", *notes]))
    return "\n\n".join(sections)


def _paired(study: Study, entries: tables.Entries) -> str:
    """The paired comparison, if both systems have runs."""
    if study.compared is None:
        return ""
    grid = tables.paired_comparison(*study.compared, entries)
    return f"## {grid.title}\n\n{markdown_table(grid).strip()}" if grid.sections else ""


def _tables(study: Study, entries: tables.Entries) -> list[Grid]:
    """The overviews, and each dataset in full."""
    return [
        grid
        for title, part in tables.divided(study, entries).items()
        for grid in (
            tables.overview(title, part),
            *(
                replace(tables.in_full(dataset, group), title=f"{title}, {dataset}")
                for dataset, group in part.items()
            ),
        )
    ]


def _tested(study: Study, entries: tables.Entries) -> list[Grid]:
    """The intervals over seeds, and the reference of the study minus the other systems; each group
    by itself."""
    groups: dict[str, list[Entry]] = {}
    for entry in (entry for group in entries.values() for entry in group):
        groups.setdefault(entry.spec.group, []).append(entry)
    return [
        replace(grid, title=": ".join(filter(None, (title, grid.title))))
        for title, group in groups.items()
        for systems in [[entry.system for entry in group]]
        for grid in (
            *interval_grids(systems),
            *difference_grids(systems, _reference(study, group)),
        )
    ]


def _reference(study: Study, group: Sequence[Entry]) -> str | None:
    """The name of the system that others are compared with: the first of `compared`, else that of
    `mrr_change_of`."""
    chosen = study.compared[0] if study.compared else study.mrr_change_of
    specs = ((entry.spec.method if entry.spec.group else entry.spec.name, entry) for entry in group)
    return next((entry.system.name for name, entry in specs if name == chosen), None)


def _notes(group: Sequence[Entry]) -> list[str]:
    """The remarks of the methods about the last snapshot."""
    last = [(entry.system.name, entry.system.runs[0].snapshots[-1:]) for entry in group]
    return [f"* {name}: {each.note}" for name, records in last for each in records if each.note]


def _figures(drawn: Sequence[str]) -> str:
    shown = [f"![{FIGURES[stem]}](figures/{stem}.png)\n\n*{FIGURES[stem]}*" for stem in drawn]
    return "\n\n".join(["## Figures", *shown]) if shown else ""


def _differences(entries: tables.Entries) -> str:
    if not any(entry.printed for group in entries.values() for entry in group):
        return ""
    grid = tables.differences(entries)
    title = f"## MRR more than {LARGE} from the printed MRR"
    return f"{title}\n\n{markdown_table(grid).strip() if grid.sections[0] else 'None.'}"
