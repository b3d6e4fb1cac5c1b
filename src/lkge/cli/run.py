"""`lkge run`: learn a growing graph, or resume a run; `lkge report`: tables and page of runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import lkge
from lkge import distributed
from lkge.cli import output
from lkge.cli.flags import config_from, given_as, option, takes_settings


@takes_settings
def run(
    *,
    flags: Mapping[str, Any],
    preset: output.PresetName = None,
    config: output.ConfigPath = None,
    data: output.DataPath = None,
    out: Annotated[
        Path | None, Option(help="The run folder to make.", show_default="runs/DATASET-METHOD-SEED")
    ] = None,
    resume: Annotated[
        Path | None, Option(help="Go on with this run folder, where it was stopped.")
    ] = None,
    track: Annotated[
        list[str] | None,
        Option(
            metavar="KIND:FOLDER",
            help="Follow the run by tensorboard:FOLDER or mlflow:FOLDER; may be repeated.",
        ),
    ] = None,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Learn a growing graph, snapshot by snapshot, and keep what was learned in a run folder."""
    if resume is not None:
        _refuse_beside_resume(flags, preset=preset, config=config, out=out)
        chosen, folder = _config_of(resume), resume
    else:
        chosen = config_from(config, flags, preset)
        folder = out or default_folder(chosen)
        if _was_begun(folder):
            resume = folder
        elif distributed.is_first():
            again = f"--resume {shlex.quote(str(folder))}"
            remedy = f"go on with it by {again}, or name another folder with --out"
            output.require_unused(folder, remedy)
    quiet = quiet or not distributed.is_first()
    screen = output.console(stderr=as_json)
    with output.stoppable(lambda: _advice(folder, data, track or [])):
        if resume is None:
            learn = _anew(folder, data, partial(config_from, config, flags, preset), quiet)
        else:
            learn = _again(folder, data)
        with output.progress(screen, chosen.training.patience, quiet) as listener:
            done = learn(listener=listener, trackers=track or [])
    if not distributed.is_first():
        return
    if as_json:
        output.print_json(done.results.to_json())
    else:
        _show(done)


def _was_begun(folder: Path) -> bool:
    """Whether torchrun has started the workers again, and they had begun this run."""
    if not distributed.is_restarted():
        return False
    from lkge.distributed.group import joined

    return joined().agree((folder / "config.toml").is_file())


def default_folder(config: lkge.RunConfig) -> Path:
    """`runs/<dataset>-<method>-<seed>`; of a dataset given as a path, the last part."""
    from lkge.studies.study import short_name

    name = f"{short_name(config.dataset.name)}-{config.method.name}-{config.training.seed}"
    return Path("runs", name)


def resume_line(folder: Path, data: Path | None = None, track: Sequence[str] = ()) -> str:
    """The command that resumes a run."""
    words = ["lkge", "run", "--resume", str(folder)]
    words += [] if data is None else ["--data", str(data)]
    return shlex.join([*words, *(word for each in track for word in ("--track", each))])


def _advice(folder: Path, data: Path | None, track: Sequence[str]) -> str:
    """How to continue after Ctrl-C."""
    if (folder / "config.toml").is_file():
        return f"To go on: {resume_line(folder, data, track)}"
    return "Nothing was learned yet."


def _refuse_beside_resume(flags: Mapping[str, Any], **others: object) -> None:
    named = [name for name, value in others.items() if value is not None]
    given = [*map(given_as, flags), *map(option, named)]
    if given:
        raise lkge.SettingsError(
            f"--resume goes on with the settings of the run itself: leave out {', '.join(given)}"
        )


def _config_of(folder: Path) -> lkge.RunConfig:
    from lkge.configure import read_toml

    config = folder / "config.toml"
    if not config.is_file():
        raise lkge.RunError(f"{folder}: not a run folder: it has no config.toml")
    return read_toml(config)


def _anew(
    folder: Path, data: Path | None, configured: Callable[..., lkge.RunConfig], quiet: bool
) -> Callable[..., lkge.Run]:
    """The function that learns the graph of the settings. The graph is loaded here; its size
    decides on settings that were not given."""
    from lkge import api
    from lkge.distributed.group import joined
    from lkge.distributed.loop import with_partitions

    graph = api.load(configured().dataset.name, data)
    if distributed.is_first():
        output.say_warnings(graph.warnings)
    size = api.size_of(graph)
    config = configured(size=size)
    if not config.training.partitions:
        config = with_partitions(config, graph, size, joined())
    if not quiet:
        output.say_size(config, size)
    return partial(api.run, graph, out=folder, config=config)


def _again(folder: Path, data: Path | None) -> Callable[..., lkge.Run]:
    """The function that resumes a run."""
    from lkge import api

    return partial(api.resume, folder, data=data)


def _show(done: lkge.Run) -> None:
    from lkge.reports.tables import summary_grids

    output.show(*summary_grids([done.results]))
    for record in done.results.snapshots[-1:]:
        if record.note:
            output.say(f"After the last snapshot: {record.note}")
    if done.folder is not None:
        page = done.folder / "index.html"
        output.say(f"Kept in {done.folder}; open {page}")


def report(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Run folders, or a study's.")],
    out: Annotated[
        Path | None,
        Option(
            help="The folder for figures, tables and page.",
            show_default="that of the run, or report for several runs",
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Print tables, and write them with figures and one self-contained page, of one or more runs.

    Runs that differ only in their seed are averaged. The first system is compared with each other
    one. The folder of `lkge bench` means all its runs.
    """
    from lkge.reports import page, tables

    results = [each for run in runs for each in results_of(run)]
    folder = out or (runs[0] if len(runs) == 1 else Path("report"))
    written = page.write_report(results, folder)
    if as_json:
        output.print_json(tables.plain(results) | {"page": str(written)})
        return
    screen = output.console()
    for table in tables.terminal_tables(results):
        screen.print(table)
    output.say(f"Open {written}; figures and tables are in {folder}")


def results_of(folder: Path) -> list[lkge.Results]:
    """The results of a run folder, or all results in the folder of a study."""
    from lkge.studies import result_store

    file = folder / result_store.RESULTS
    if file.is_file():
        return [result_store.read_results(file)]
    if (folder / "config.toml").is_file():
        remedy = f"finish it with: {resume_line(folder)}"
    elif found := result_store.results_in(folder):
        return found
    else:
        remedy = "is it a folder of lkge run or lkge bench?"
    raise lkge.RunError(f"{folder}: no {file.name} here: {remedy}")
