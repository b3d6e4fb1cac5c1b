"""`lkge queue` and `lkge config`: what waits to be learned, and with which settings."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

from typer import Option

import lkge
from lkge.cli import output
from lkge.cli.flags import Assignments, assigned
from lkge.cli.grow import Folder, add_line
from lkge.reports import grids, text

if TYPE_CHECKING:
    from lkge.store.queue import QueuedBatch


def queue(
    kg: Folder,
    set_aside: Annotated[
        int | None,
        Option(metavar="N", help="Take batch N out of the queue; it is kept, and others go on."),
    ] = None,
    restore: Annotated[
        int | None, Option(metavar="N", help="Let batch N, which was set aside, wait again.")
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """List the batches that wait to be learned, and those that were set aside."""
    if set_aside is not None and restore is not None:
        raise lkge.SettingsError("--set-aside and --restore are two commands: give one of them")
    graph, done = lkge.open(kg), ""
    if set_aside is not None:
        graph.set_aside(set_aside)
        line = shlex.join(["lkge", "queue", str(kg), "--restore", str(set_aside)])
        done = f"Batch {set_aside} does not wait any more. To take it back: {line}"
    elif restore is not None:
        number = graph.restore(restore)
        done = f"Batch {restore} waits again, as batch {number}. To learn it: {add_line(kg)}"
    batches = graph.queue()
    if as_json:
        output.print_json(batches)
        return
    if done:
        output.say(done)
    elif not batches:
        output.say("Nothing waits to be learned.")
    else:
        columns = ("#", "state", "when", "what", "from", "why")
        output.show(grids.grid_of(str(kg), columns, map(_row, batches), names=len(columns)))


def _row(batch: QueuedBatch) -> tuple[str, ...]:
    retracted = f" {text.count(-batch.retracted)}" if batch.retracted else ""
    what = batch.edit or f"{text.count(batch.facts)}{retracted} facts"
    when = batch.accepted.replace("T", " ").removesuffix("+00:00")[: len("2026-01-01 12:00")]
    return str(batch.number), batch.state, when, what, batch.source, batch.error


def config(kg: Folder, assignments: Assignments = None, as_json: output.AsJson = False) -> None:
    """Show the settings of a living graph, or change some for its later updates.

    A change is a version of its own, with the same embeddings.
    """
    graph = lkge.open(kg)
    if assignments:
        record = graph.configure(assigned(assignments))
        if not as_json:
            output.say(f"{kg}: version {record.version} has {record.source}")
    if as_json:
        output.print_json(graph.config.to_dict())
    elif not assignments:
        rows = [(name, str(value)) for name, value in graph.config.flat().items()]
        output.show(grids.grid_of(f"{kg}, version {graph.version}", ("setting", "value"), rows, 2))
