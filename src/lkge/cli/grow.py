"""`lkge init` and `lkge add`: make a living graph, and add facts."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lkge.cli.flags import config_from, takes_settings
from lkge.cli.living import (
    FACT_FILES,
    Folder,
    read_files,
    say_warnings,
    together,
    version_grid,
)
from lkge.cli.output import (
    INTERRUPTED,
    AsJson,
    ConfigPath,
    DataPath,
    PresetName,
    Quiet,
    console,
    print_json,
    progress,
    require_unused,
)
from lkge.errors import DataError, SettingsError

if TYPE_CHECKING:
    from lkge.store.graph import LivingGraph
    from lkge.store.records import VersionRecord
    from lkge.training.events import Listener

HELD_OUT = 0.02
KEPT = 5

Valid = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=0.9,
        help="The share of new facts that is held out for validation and test.",
        show_default=str(HELD_OUT),
    ),
]


@partial(takes_settings, leave_out=frozenset({"dataset"}))
def init(
    *,
    kg: Annotated[Path, typer.Argument(metavar="KG", help="The folder to make.")],
    flags: Mapping[str, Any],
    files: Annotated[
        list[Path] | None,
        typer.Option("--from", help=f"Learn this file first; may be repeated. {FACT_FILES}"),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option("--from-run", help="Begin with what a finished run folder has learned."),
    ] = None,
    preset: PresetName = None,
    config: ConfigPath = None,
    data: DataPath = None,
    keep: Annotated[int, typer.Option(min=2, help="Versions that stay on the disk.")] = KEPT,
    known: Annotated[
        bool, typer.Option(help="Keep the known facts, to mark answers and to leave them out.")
    ] = True,
    valid: Valid = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a living graph in a new folder: empty, from facts, or from a finished run."""
    require_unused(kg, f"add to it with `{add_line(kg)}`, or name another folder")
    facts = together(read_files(files or []))
    if files and not facts:
        raise DataError(f"there is no fact in {_names(files)}; leave out --from for an empty graph")
    graph = _begun(kg, run, data, preset, config, flags, keep=keep, known=known)
    if files:
        with _learning(graph, quiet) as listener:
            graph.add(facts, valid=valid, source=_names(files), listener=listener)
    if as_json:
        log = [dataclasses.asdict(record) for record in graph.log()]
        print_json({"folder": str(kg), "settings": graph.config.to_dict(), "log": log})
        return
    _show(graph.log()[1:])
    advice = f"{kg} is made. To add facts: {add_line(kg)} FILE…"
    console().print(advice, soft_wrap=True, markup=False, highlight=False)


def add(
    kg: Folder,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help=f"Facts to learn. {FACT_FILES}"),
    ] = None,
    retract: Annotated[
        list[Path] | None,
        typer.Option("--retract", help="Facts that no longer hold; may be repeated."),
    ] = None,
    valid: Valid = None,
    events: Annotated[
        bool,
        typer.Option("--events", help="Print what happens on stdout, one JSON object a line."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn new facts and publish them as the next version. Without a file: learn what waits.

    The facts are on the disk before learning begins; after Ctrl-C or a crash `lkge add KG` goes on.
    """
    from lkge import living

    if events and as_json:
        raise SettingsError("--events and --json both speak on stdout: leave one of them out")
    graph = living.open(kg)
    before = graph.version
    added, gone = (together(read_files(given or [])) for given in (files, retract))
    with _learning(graph, quiet, events) as listener:
        if files or retract:
            source = _names([*(files or []), *(retract or [])])
            graph.add(added, retract=gone, valid=valid, source=source, listener=listener)
        else:
            graph.learn_waiting(listener)
    learned = [record for record in graph.log() if record.version > before]
    if as_json:
        print_json([dataclasses.asdict(record) for record in learned])
        say_warnings(learned)
    elif not events:
        _show(learned)
        if not learned:
            console().print("Nothing waits to be learned.")


def add_line(folder: Path) -> str:
    """The command that adds facts to a graph."""
    return shlex.join(["lkge", "add", str(folder)])


def _begun(
    kg: Path,
    run: Path | None,
    data: Path | None,
    preset: str | None,
    config: Path | None,
    flags: Mapping[str, Any],
    **options: Any,
) -> LivingGraph:
    """A new graph: empty, or with what a run has learned."""
    from lkge import living

    if run is None:
        chosen = config_from(config, flags, preset, living=True)
        return living.init(kg, config=chosen, **options)
    if config is not None:
        raise SettingsError(
            "--from-run goes on with the settings of the run: "
            "leave out --config, and give single settings as flags"
        )
    return living.init(kg, run=run, data=data, preset=preset, **options, **flags)


def _show(records: Sequence[VersionRecord]) -> None:
    from lkge.reports.tables import rich_table

    screen = console()
    for record in records:
        screen.print(rich_table(version_grid(record)))
    say_warnings(records)


@contextmanager
def _learning(graph: LivingGraph, quiet: bool, events: bool = False) -> Iterator[Listener]:
    """The listener of the events; Ctrl-C ends the command and says how to go on."""
    from lkge.store.inbox import waiting
    from lkge.training.events import JsonLines

    try:
        if events:
            yield JsonLines(sys.stdout)
        else:
            with progress(console(stderr=True), graph.config.training.patience, quiet) as listener:
                yield listener
    except KeyboardInterrupt:
        kept = f"The facts are kept. To go on: {add_line(graph.store.folder)}"
        advice = kept if waiting(graph.store) else "No facts were accepted."
        typer.echo(f"\nStopped. {advice}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _names(files: Sequence[Path]) -> str:
    return ", ".join(file.name for file in files)
