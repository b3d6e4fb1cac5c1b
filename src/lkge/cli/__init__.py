"""The command line: parse, one call, print. What is heavy is imported inside the commands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import lkge
from lkge.cli import ask, bench, datasets, grow, keep, methods, report, run, tune
from lkge.cli.output import INTERRUPTED, fail, say_error
from lkge.errors import LkgeError


class Commands(TyperGroup):
    """Turns what a user can mend into one red line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except LkgeError as error:
            fail(str(error))
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KeyboardInterrupt:
            say_error("stopped")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Living graphs": {
        "init": grow.init,
        "add": grow.add,
        "log": keep.log,
        "predict": ask.predict,
        "similar": ask.similar,
        "score": ask.score,
        "check": keep.check,
        "rollback": keep.rollback,
        "export": keep.export,
        "serve": keep.serve,
    },
    "Research": {
        "run": run.command,
        "report": report.command,
        "bench": bench.command,
        "tune": tune.command,
    },
}
"""Panel of `lkge --help` → its commands, in order."""

for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, rich_help_panel=panel)(command)
app.add_typer(methods.app, name="methods", rich_help_panel="Research")
app.add_typer(datasets.app, name="datasets", rich_help_panel="Research")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lkge {lkge.__version__}")
        raise typer.Exit


VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version and end."
)


@app.callback()
def top(version: Annotated[bool, VERSION] = False) -> None:
    """Lifelong embeddings for knowledge graphs that grow."""


def main() -> None:
    """The entry point of `lkge`. What a terminal cannot show is replaced, never an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="lkge")
