"""Output of commands: tables or JSON on stdout, all else on stderr; options that they share."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lkge.data.documents import json_text
from lkge.data.files import reason_of
from lkge.errors import DamageWarning, RunError
from lkge.reports import grids, text
from lkge.training import events

if TYPE_CHECKING:
    from rich.console import Console

    from lkge.config import RunConfig
    from lkge.sizing import Size

SOME_FAILED = 1
USER_ERROR = 2
INTERRUPTED = 130
WIDTH_OF_FILES = 120

DataPath = Annotated[
    Path | None, typer.Option("--data", help="A folder or archive to look for datasets in.")
]
ConfigPath = Annotated[
    Path | None, typer.Option("--config", help="A TOML file with settings; a flag outweighs it.")
]
PresetName = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="What the settings begin with: evergreen, paper, living or living-paper.",
        show_default="that of the method",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


def console(*, stderr: bool = False) -> Console:
    """The console of stdout or stderr; a file or pipe gets lines long enough for every table."""
    from rich.console import Console

    made = Console(stderr=stderr)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = WIDTH_OF_FILES
    return made


def progress(
    screen: Console, patience: int, quiet: bool
) -> AbstractContextManager[events.Listener]:
    """The listener that shows the progress of learning, or ignores it if `quiet`."""
    from lkge.training.display import shown

    return nullcontext(events.ignore) if quiet else shown(screen, patience)


def say(line: str, style: str = "", *, stderr: bool = False) -> None:
    """Print a line: never folded, never read as markup, control characters replaced."""
    shown = text.printable(line)
    console(stderr=stderr).print(shown, style=style, markup=False, highlight=False, soft_wrap=True)


def say_warnings(warnings: Iterable[str]) -> None:
    """Print yellow lines on stderr."""
    for warning in warnings:
        say(f"warning: {warning}", "yellow", stderr=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Damage that is found in the block is printed as a line."""

    def shown(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, DamageWarning):
            say_warnings([str(message)])
        else:
            before(message, category, *rest, **more)

    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.showwarning = shown
        warnings.simplefilter("always", DamageWarning)
        yield


def say_size(config: RunConfig, size: Size) -> None:
    """What was chosen for a large graph, and the time and memory that it takes, on stderr."""
    from lkge.sizing import describe

    if size.is_large:
        say(describe(config, size), stderr=True)


def say_error(message: str) -> None:
    """Print a red line on stderr."""
    say(f"error: {message}", "red", stderr=True)


def fail(message: str) -> NoReturn:
    """Print an error that the user can correct, and end the command."""
    say_error(message)
    raise typer.Exit(USER_ERROR)


@contextmanager
def stoppable(advice: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C in the block ends the command and prints how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(err=True)
        say(f"Stopped. {advice()}", stderr=True)
        raise typer.Exit(INTERRUPTED) from None


def require_unused(folder: Path, remedy: str) -> None:
    """RunError if a folder is not empty, or is a file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder}: exists already: {remedy}")


def show(*tables: grids.Grid) -> None:
    """Print tables on stdout."""
    screen = console()
    for table in tables:
        screen.print(grids.rich_table(table))


def print_json(tree: Any) -> None:
    """Print plain values and dataclasses as JSON."""
    from lkge.evaluation.results import nan_to_none

    typer.echo(json_text(nan_to_none(tree), indent=2))


def flush() -> None:
    """Write what stdout still holds. If that fails, nothing more is written to it: RunError."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise RunError(f"the output cannot be written: {reason_of(error)}") from error
