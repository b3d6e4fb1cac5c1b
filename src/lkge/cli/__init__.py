"""The command line: parse, one call, print. What is heavy is imported inside the commands."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import lkge
from lkge.cli import (
    ask,
    bench,
    datasets,
    discover,
    grow,
    keep,
    methods,
    output,
    queue,
    run,
    streams,
)
from lkge.data.files import reason_of
from lkge.errors import packages_named


@contextmanager
def _one_kind_of_error() -> Iterator[None]:
    """The last net: what the system refuses is an error in one line, as all others."""
    try:
        with packages_named():
            yield
    except BrokenPipeError:
        raise
    except OSError as error:
        output.flush()
        path = error.filename or "a file or the output"
        raise lkge.RunError(f"{path}: {reason_of(error)}") from error
    except MemoryError as error:
        raise lkge.RunError(
            "there is not enough memory; close other programs, or give less at a time"
        ) from error
    except RecursionError as error:
        raise lkge.RunError("what was given is nested too deeply; make it flatter") from error


class Commands(TyperGroup):
    """Prints an error that the user can correct as one red line, and ends with exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            with _one_kind_of_error(), output.warnings_as_lines():
                done = super().invoke(ctx)
                output.flush()
                return done
        except lkge.LkgeError as error:
            output.fail(str(error))
        except KeyboardInterrupt:
            output.say_error("stopped")
            raise typer.Exit(output.INTERRUPTED) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word, or of the first two, as `bench streams`."""
        two = " ".join(args[:2])
        words = [two, *args[2:]] if two in self.commands else args
        return super().resolve_command(ctx, words)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Living graphs": (
        *(grow.init, grow.add, grow.edit, grow.relearn, keep.log, keep.health),
        *(queue.queue, queue.config),
        *(ask.predict, ask.similar, ask.score, ask.find),
        *(discover.suggest, discover.explain),
        *(keep.rollback, keep.tag, keep.keep, keep.export, keep.serve),
        *(keep.verify, keep.compact, keep.backup, keep.migrate),
    ),
    "Research": (run.run, run.report, bench.bench, bench.tune),
}
"""Panel of `lkge --help` → its commands, in order; a command has the name of its function."""

for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command("bench streams", rich_help_panel="Research")(streams.bench_streams)
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
    try:
        with _one_kind_of_error():
            app(prog_name="lkge")
    except lkge.LkgeError as error:  # outside of a command, such as the output of --version
        output.say_error(str(error))
        sys.exit(output.USER_ERROR)
