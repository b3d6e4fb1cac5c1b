"""`lkge report`: the tables, figures and page of one run or of many side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lkge.cli.output import AsJson, console, print_json
from lkge.cli.run import resume_line
from lkge.errors import RunError

if TYPE_CHECKING:
    from lkge.evaluation.results import Results


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder for figures and page.",
            show_default="that of the run, or report for several runs",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print tables, and draw figures and one self-contained page, of one or more runs.

    Runs that differ only in their seed are averaged.
    """
    from lkge.reports.page import write_report
    from lkge.reports.tables import summary_rows, terminal_tables

    results = [read_results(run) for run in runs]
    folder = out or (runs[0] if len(runs) == 1 else Path("report"))
    page = write_report(results, folder)
    if as_json:
        print_json({"page": str(page), "systems": summary_rows(results)})
        return
    screen = console()
    for table in terminal_tables(results):
        screen.print(table)
    screen.print(f"Open {page}; the figures are in {folder / 'figures'}", soft_wrap=True)


def read_results(run: Path) -> Results:
    """What `results.json` of a run folder holds."""
    from lkge.evaluation.results import Results

    file = run / "results.json"
    try:
        return Results.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError) as error:
        begun = (run / "config.toml").is_file()
        remedy = f"finish it with: {resume_line(run)}" if begun else "is it a folder of lkge run?"
        raise RunError(f"{run}: no results.json here: {remedy}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file}: not the results of a run: {error}") from error
