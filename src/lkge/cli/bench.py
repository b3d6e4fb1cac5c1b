"""`lkge bench`: a study of many runs, such as the paper's tables and figures."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from lkge.cli.output import AsJson, DataPath, console, print_json, say_error, show, stopped

if TYPE_CHECKING:
    from lkge.studies.runner import Failure

SOME_FAILED = 1

Jobs = Annotated[int, Option(min=1, help="How many runs at a time, each with one thread.")]


def command(
    study: Annotated[
        str,
        Argument(
            metavar="STUDY", help="`paper`, `beyond`, `scores`, or a TOML file with another study."
        ),
    ],
    datasets: Annotated[
        str | None, Option(help="Names, with commas between.", show_default="all")
    ] = None,
    methods: Annotated[
        str | None,
        Option(help="Names, with commas; `lkge:no-transfer` is one.", show_default="all"),
    ] = None,
    seeds: Annotated[
        str | None,
        Option(help="Numbers, with commas, for every method.", show_default="the study's"),
    ] = None,
    jobs: Jobs = 2,
    data: DataPath = None,
    out: Annotated[
        Path | None, Option(help="The folder of results and tables.", show_default="results/STUDY")
    ] = None,
    runs: Annotated[
        Path | None, Option(help="The folder of run folders.", show_default="OUT/runs")
    ] = None,
    report_only: Annotated[
        bool, Option("--report-only", help="Run nothing; write what is kept.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run every system of a study on every dataset, and write its tables and figures.

    What is finished is not run again, and what was begun goes on.
    """
    from lkge.studies.report import stored_entries, write_study
    from lkge.studies.runner import run_study
    from lkge.studies.study import listed, listed_seeds, study_named
    from lkge.studies.tables import divided, overview, plain

    known, places, systems = study_named(study), listed(datasets), listed(methods)
    chosen = known.including(places or [], systems or [])
    folder = out or Path("results") / chosen.name
    screen = console(stderr=as_json)
    failures: Sequence[Failure] = []
    if not report_only:
        cells = chosen.run_specs(places, systems, listed_seeds(seeds))
        run_folder = runs or folder / "runs"
        with stoppable():
            failures = run_study(
                chosen, cells, screen, out=folder, folder=run_folder, at_once=jobs, data=data
            )
    say_failures(failures)
    page = write_study(chosen, folder)
    entries = stored_entries(chosen, folder)
    if as_json:
        print_json(plain(entries))
    else:
        show(*(overview(title, part) for title, part in divided(chosen, entries).items()))
        screen.print(f"Kept in {folder}; open {page}", soft_wrap=True)
    if failures:
        raise typer.Exit(SOME_FAILED)


@contextmanager
def stoppable() -> Iterator[None]:
    """After Ctrl-C, say how to go on: by the same command."""
    try:
        yield
    except KeyboardInterrupt:
        stopped(f"To go on: {shlex.join(['lkge', *sys.argv[1:]])}")


def say_failures(failures: Sequence[Failure]) -> None:
    """One line for each run that failed."""
    for failure in failures:
        say_error(f"{failure.job.name} failed: {failure.reason}; its log: {failure.job.log}")
