"""`lkge bench`: a study of many runs; `lkge tune`: the settings that rank validation facts best."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Exit, Option

from lkge.cli import output
from lkge.cli.flags import config_from, given_as, takes_settings
from lkge.errors import SettingsError
from lkge.reports import grids, text

if TYPE_CHECKING:
    from lkge.studies import runner, tuning

Jobs = Annotated[int, Option(min=1, help="How many runs at a time, each with one thread.")]
ReportOnly = Annotated[bool, Option("--report-only", help="Run nothing; write what is kept.")]


def bench(
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
    data: output.DataPath = None,
    out: Annotated[
        Path | None, Option(help="The folder of results and tables.", show_default="results/STUDY")
    ] = None,
    runs: Annotated[
        Path | None, Option(help="The folder of run folders.", show_default="OUT/runs")
    ] = None,
    report_only: ReportOnly = False,
    as_json: output.AsJson = False,
) -> None:
    """Run every system of a study on every dataset, and write its tables and figures.

    What is finished is not run again, and what was begun goes on. `lkge bench streams` measures
    living graphs that grow by many adds.
    """
    from lkge.studies import report, runner, tables
    from lkge.studies.study import listed, listed_seeds, study_named

    known, places, systems = study_named(study), listed(datasets), listed(methods)
    chosen = known.including(places or [], systems or [])
    folder = out or Path("results") / chosen.name
    screen = output.console(stderr=as_json)
    failures: Sequence[runner.Failure] = []
    if not report_only:
        cells = chosen.run_specs(places, systems, listed_seeds(seeds))
        run_folder = runs or folder / "runs"
        with output.stoppable(repeat):
            failures = runner.run_study(
                chosen, cells, screen, out=folder, folder=run_folder, at_once=jobs, data=data
            )
    say_failures(failures)
    page = report.write_study(chosen, folder)
    entries = report.stored_entries(chosen, folder)
    if as_json:
        output.print_json(tables.plain(entries))
    else:
        parts = tables.divided(chosen, entries)
        output.show(*(tables.overview(title, part) for title, part in parts.items()))
        output.say(f"Kept in {folder}; open {page}")
    if failures:
        raise Exit(output.SOME_FAILED)


@takes_settings
def tune(
    *,
    flags: Mapping[str, Any],
    preset: output.PresetName = None,
    config: output.ConfigPath = None,
    space: Annotated[
        Literal["own", "base"],
        Option(help="Tune the method's own settings, or those of the base model."),
    ] = "own",
    trials: Annotated[
        int | None, Option(min=1, help="So many choices of Optuna.", show_default="the whole grid")
    ] = None,
    jobs: Jobs = 2,
    data: output.DataPath = None,
    out: Annotated[
        Path | None,
        Option(help="The folder of the search.", show_default="runs/tune-DATASET-METHOD"),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Try settings of a method, and tell which rank the validation facts best.

    Test facts take no part. What is finished is not run again, and what was begun goes on.
    """
    from lkge.data import catalog
    from lkge.studies import display, runner, study, tuning

    chosen = config_from(config, flags, preset)
    choices = tuning.space_of(chosen, base=space == "base")
    _refuse_tuned(flags, choices)
    name = f"tune-{study.short_name(chosen.dataset.name)}-{chosen.method.name}"
    search = tuning.Search.opened(out or Path("runs", name), chosen, choices)
    catalog.load(chosen.dataset.name, data)
    screen = output.console(stderr=as_json)
    grid = tuning.grid(choices)
    total, done = min(trials or len(grid), len(grid)), len(search.trials)
    if jobs > 1 and done < total:
        runner.compile_kernels([search.job(choice) for choice in grid], screen)
    with output.stoppable(repeat), display.observing(screen, total, done) as observer:
        failures = search.run(trials=trials, jobs=jobs, observer=observer, data=data)
    say_failures(failures)
    if as_json:
        output.print_json(search.to_json())
    else:
        output.show(trial_grid(search))
        if search.best:
            words = search.to_json()["command"] + (["--data", str(data)] if data else [])
            output.say(shlex.join(words))
    if failures:
        raise Exit(output.SOME_FAILED)


def trial_grid(search: tuning.Search) -> grids.Grid:
    """The trials in their order, the best in bold."""
    rows = [
        (
            ", ".join(f"{name} {value}" for name, value in trial.choice.items()),
            grids.Cell(f"{trial.valid_mrr:.4f}", best=trial is search.best),
            text.count(trial.epochs),
            text.duration(trial.seconds),
        )
        for trial in search.trials
    ]
    title = f"{search.config.method.name} on {search.config.dataset.name}"
    columns = ("Settings", "Validation MRR", "Epochs", "Time")
    return grids.grid_of(title, columns, rows, note="Chosen by validation facts alone.")


def _refuse_tuned(flags: Mapping[str, Any], space: Mapping[str, Any]) -> None:
    tuned = {name for key in space for name in (key, key.partition(".")[2])}
    for name in flags:
        if name in tuned:
            given = given_as(name)
            raise SettingsError(f"{given} is what is tuned here: leave it out, or choose --space")


def repeat() -> str:
    """The command that continues: the same one."""
    return f"To go on: {shlex.join(['lkge', *sys.argv[1:]])}"


def say_failures(failures: Sequence[runner.Failure]) -> None:
    for failure in failures:
        job = failure.job
        output.say_error(f"{job.name} failed: {failure.reason}; its log: {job.log}")
