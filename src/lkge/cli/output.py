"""How commands speak: tables or JSON on stdout, everything else on stderr."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lkge.errors import RunError

if TYPE_CHECKING:
    from rich.console import Console

    from lkge.reports.grids import Grid
    from lkge.training.events import Listener

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
    """Where tables and progress go; a file or pipe gets lines long enough for every table."""
    from rich.console import Console

    made = Console(stderr=stderr)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = WIDTH_OF_FILES
    return made


@contextmanager
def progress(screen: Console, patience: int, quiet: bool) -> Iterator[Listener]:
    """Who shows what happens while learning; nobody, if it is to be quiet."""
    from lkge.training.display import shown
    from lkge.training.events import ignore

    if quiet:
        yield ignore
    else:
        with shown(screen, patience) as listener:
            yield listener


def say_error(message: str) -> None:
    """One red line on stderr."""
    say(f"error: {message}", "red", stderr=True)


def say_warnings(warnings: Iterable[str]) -> None:
    """Yellow lines on stderr."""
    for warning in warnings:
        say(f"warning: {warning}", "yellow", stderr=True)


def say(line: str, style: str = "", *, stderr: bool = False) -> None:
    """A line as it is: never folded, never read as markup."""
    console(stderr=stderr).print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """Say what is wrong and end with the exit code for what the user can mend."""
    say_error(message)
    raise typer.Exit(USER_ERROR)


def stopped(advice: str) -> NoReturn:
    """End after Ctrl-C, and say how to go on."""
    typer.echo(f"\nStopped. {advice}", err=True)
    raise typer.Exit(INTERRUPTED) from None


def require_unused(folder: Path, remedy: str) -> None:
    """Refuse a folder that holds something, or a file of that name."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder}: exists already: {remedy}")


def show(*grids: Grid) -> None:
    """Tables on stdout."""
    from lkge.reports.grids import rich_table

    screen = console()
    for grid in grids:
        screen.print(rich_table(grid))


def print_json(tree: Any) -> None:
    """A tree of plain values as JSON; nan and infinities, which JSON lacks, become null."""
    typer.echo(json.dumps(_finite(tree), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(tree: Any) -> Any:
    match tree:
        case float() if not math.isfinite(tree):
            return None
        case str():
            return tree
        case Mapping():
            return {name: _finite(value) for name, value in tree.items()}
        case Sequence():
            return [_finite(value) for value in tree]
        case _:
            return tree
