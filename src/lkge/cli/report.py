"""`lkge report`: the tables, figures and page of one run or of many side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from lkge.cli.output import AsJson, console, print_json
from lkge.cli.run import resume_line
from lkge.errors import RunError

if TYPE_CHECKING:
    from lkge.evaluation.results import Results


def command(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Run folders, or a study's.")],
    out: Annotated[
        Path | None,
        Option(
            help="The folder for figures and page.",
            show_default="that of the run, or report for several runs",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print tables, and draw figures and one self-contained page, of one or more runs.

    Runs that differ only in their seed are averaged. The folder of `lkge bench` means all its runs.
    """
    from lkge.reports.page import write_report
    from lkge.reports.tables import summary_rows, terminal_tables

    results = [each for run in runs for each in results_of(run)]
    folder = out or (runs[0] if len(runs) == 1 else Path("report"))
    page = write_report(results, folder)
    if as_json:
        print_json({"page": str(page), "systems": summary_rows(results)})
        return
    screen = console()
    for table in terminal_tables(results):
        screen.print(table)
    screen.print(f"Open {page}; the figures are in {folder / 'figures'}", soft_wrap=True)


def results_of(folder: Path) -> list[Results]:
    """What `results.json` of a run folder holds, or all the JSON files of the folder of a study."""
    from lkge.studies.result_store import RESULTS, read_results, results_in

    if (folder / RESULTS).is_file():
        return [read_results(folder / RESULTS)]
    begun = (folder / "config.toml").is_file()
    found = [] if begun else results_in(folder)
    if not found:
        finish = f"finish it with: {resume_line(folder)}"
        remedy = finish if begun else "is it a folder of lkge run or lkge bench?"
        raise RunError(f"{folder}: no {RESULTS} here: {remedy}")
    return found
