"""`lkge run`: learn a growing graph, or go on with a run that was stopped."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from lkge.cli import output
from lkge.cli.flags import config_from, given_as, option, takes_settings
from lkge.cli.output import AsJson, Quiet, console, print_json, say_warnings, show
from lkge.config import RunConfig
from lkge.errors import RunError, SettingsError

if TYPE_CHECKING:
    from lkge.api import Run


@takes_settings
def command(
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
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn a growing graph, snapshot by snapshot, and keep what was learned in a run folder."""
    if resume is not None:
        _refuse_beside_resume(flags, preset=preset, config=config, out=out)
        chosen, folder = _config_of(resume), resume
    else:
        chosen = config_from(config, flags, preset)
        folder = out or default_folder(chosen)
        again = f"--resume {shlex.quote(str(folder))}"
        output.require_unused(
            folder, f"go on with it by {again}, or name another folder with --out"
        )
    screen = console(stderr=as_json)
    with _stoppable(folder, data):
        learn = _anew(folder, data, chosen) if resume is None else _again(folder, data)
        with output.progress(screen, chosen.training.patience, quiet) as listener:
            done = learn(listener=listener)
    if as_json:
        print_json(done.results.to_json())
    else:
        _show(done)


def default_folder(config: RunConfig) -> Path:
    """`runs/<dataset>-<method>-<seed>`; a dataset given as a path lends its last name."""
    from lkge.studies.study import short_name

    names = (short_name(config.dataset.name), config.method.name, config.training.seed)
    return Path("runs", "-".join(map(str, names)))


def resume_line(folder: Path, data: Path | None = None) -> str:
    """The command that goes on with a run."""
    words = ["lkge", "run", "--resume", str(folder)]
    return shlex.join(words if data is None else [*words, "--data", str(data)])


def _refuse_beside_resume(flags: Mapping[str, Any], **others: object) -> None:
    named = [name for name, value in others.items() if value is not None]
    given = [*map(given_as, flags), *map(option, named)]
    if given:
        raise SettingsError(
            f"--resume goes on with the settings of the run itself: leave out {', '.join(given)}"
        )


def _config_of(folder: Path) -> RunConfig:
    config = folder / "config.toml"
    if not config.is_file():
        raise RunError(f"{folder}: not a run folder: it has no config.toml")
    from lkge.configure import read_toml

    return read_toml(config)


def _anew(folder: Path, data: Path | None, config: RunConfig) -> Callable[..., Run]:
    """What learns the graph of the settings; the graph is loaded here and now."""
    from lkge import api

    graph = api.load(config.dataset.name, data)
    say_warnings(graph.warnings)
    return partial(api.run, graph, out=folder, config=config)


def _again(folder: Path, data: Path | None) -> Callable[..., Run]:
    """What goes on with a run."""
    from lkge import api

    return partial(api.resume, folder, data=data)


@contextmanager
def _stoppable(folder: Path, data: Path | None) -> Iterator[None]:
    """Ctrl-C ends the command and says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        begun = (folder / "config.toml").is_file()
        advice = f"To go on: {resume_line(folder, data)}" if begun else "Nothing was learned yet."
        output.stopped(advice)


def _show(done: Run) -> None:
    from lkge.reports.tables import summary_grids

    show(*summary_grids([done.results]))
    for record in done.results.snapshots[-1:]:
        if record.note:
            text = f"After the last snapshot: {record.note}"
            console().print(text, soft_wrap=True, markup=False)
    if done.folder is not None:
        page = done.folder / "index.html"
        console().print(f"Kept in {done.folder}; open {page}", soft_wrap=True)
