"""`lkge tune`: the settings of a method that rank validation facts best."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from lkge.cli.bench import SOME_FAILED, Jobs, say_failures, stoppable
from lkge.cli.flags import config_from, given_as, takes_settings
from lkge.cli.output import AsJson, ConfigPath, DataPath, PresetName, console, print_json, show
from lkge.errors import SettingsError
from lkge.reports import text
from lkge.reports.grids import Cell, Grid, grid_of

if TYPE_CHECKING:
    from lkge.config import RunConfig
    from lkge.studies.tuning import Search


@takes_settings
def command(
    *,
    flags: Mapping[str, Any],
    preset: PresetName = None,
    config: ConfigPath = None,
    space: Annotated[
        Literal["own", "base"],
        Option(help="Tune the method's own settings, or those of the base model."),
    ] = "own",
    trials: Annotated[
        int | None, Option(min=1, help="So many choices of Optuna.", show_default="the whole grid")
    ] = None,
    jobs: Jobs = 2,
    data: DataPath = None,
    out: Annotated[
        Path | None,
        Option(help="The folder of the search.", show_default="runs/tune-DATASET-METHOD"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try settings of a method, and tell which rank the validation facts best.

    Test facts take no part. What is finished is not run again, and what was begun goes on.
    """
    from lkge.data.catalog import load
    from lkge.studies.display import observing
    from lkge.studies.runner import compile_kernels
    from lkge.studies.tuning import Search, grid, space_of

    chosen = config_from(config, flags, preset)
    choices = space_of(chosen, base=space == "base")
    _refuse_tuned(flags, choices)
    search = Search.opened(out or default_folder(chosen), chosen, choices)
    load(chosen.dataset.name, data)
    screen = console(stderr=as_json)
    total = min(trials or len(grid(choices)), len(grid(choices)))
    if jobs > 1 and len(search.trials) < total:
        compile_kernels([search.job(choice) for choice in grid(choices)], screen)
    with stoppable(), observing(screen, total, len(search.trials)) as observer:
        failures = search.run(trials=trials, jobs=jobs, observer=observer, data=data)
    say_failures(failures)
    if as_json:
        print_json(search.to_json())
    else:
        show(trial_grid(search))
        if search.best:
            screen.print(chosen_line(search, data), soft_wrap=True, highlight=False)
    if failures:
        raise typer.Exit(SOME_FAILED)


def default_folder(config: RunConfig) -> Path:
    """`runs/tune-DATASET-METHOD`."""
    from lkge.studies.study import short_name

    return Path("runs") / f"tune-{short_name(config.dataset.name)}-{config.method.name}"


def trial_grid(search: Search) -> Grid:
    """The trials in their order, the best in bold."""
    rows = [
        (
            ", ".join(f"{name} {value}" for name, value in trial.choice.items()),
            Cell(f"{trial.valid_mrr:.4f}", best=trial is search.best),
            text.count(trial.epochs),
            text.duration(trial.seconds),
        )
        for trial in search.trials
    ]
    title = f"{search.config.method.name} on {search.config.dataset.name}"
    columns = ("Settings", "Validation MRR", "Epochs", "Time")
    return grid_of(title, columns, rows, note="Chosen by validation facts alone.")


def chosen_line(search: Search, data: Path | None) -> str:
    """The command that learns with the best settings."""
    words = search.to_json()["command"]
    return shlex.join(words if data is None else [*words, "--data", str(data)])


def _refuse_tuned(flags: Mapping[str, Any], space: Mapping[str, Any]) -> None:
    places = {name: key for key in space for name in (key, key.partition(".")[2])}
    given = [given_as(name) for name in flags if name in places]
    if given:
        raise SettingsError(f"{given[0]} is what is tuned here: leave it out, or choose --space")
