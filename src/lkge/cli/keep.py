"""`lkge log`, `lkge check`, `lkge rollback` and `lkge export`: what a living graph keeps."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lkge.cli.grow import add_line
from lkge.cli.living import AtVersion, Folder, log_grid
from lkge.cli.output import AsJson, console, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lkge.store.checking import Damage
    from lkge.store.versions import Store

DAMAGED = 1

Format = Literal["parquet", "npy", "tsv", "word2vec", "safetensors"]


def log(kg: Folder, as_json: AsJson = False) -> None:
    """List the versions: when, what came, how well old and new facts are ranked, drift, time."""
    from lkge.reports.tables import rich_table
    from lkge.store.inbox import waiting
    from lkge.store.reader import open_reader

    reader = open_reader(kg)
    if as_json:
        print_json([dataclasses.asdict(record) for record in reader.log])
        return
    kept = reader.store.versions()
    notes = ["Times are UTC. MRR old: of facts held out before, before → after."]
    if len(kept) < len(reader.log):
        notes.append("Faint: no longer on the disk.")
    if batches := len(waiting(reader.store)):
        notes.append(f"{batches} more to be learned: {add_line(kg)}")
    console().print(rich_table(log_grid(str(kg), reader.log, kept, " ".join(notes))))


def check(
    kg: Folder,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Set damaged versions aside; their facts are learned again."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every byte of a living graph and name what is damaged; exit code 1 if anything is."""
    from lkge.store.checking import check as damage_in
    from lkge.store.versions import Store

    store = Store(kg)
    found = damage_in(store)
    done = mended(store) if repair and found else []
    left = damage_in(store) if repair else found
    if as_json:
        damage = [dataclasses.asdict(each) for each in found]
        print_json({"damage": damage, "repaired": done, "whole": not left})
    else:
        _show_check(store, found, done, left)
    if left:
        raise typer.Exit(DAMAGED)


def mended(store: Store) -> list[str]:
    """Repair a store, to the exclusion of other writers; what was done."""
    from lkge.store.checking import repair
    from lkge.store.locks import writing

    with writing(store, "check --repair"):
        return repair(store)


def rollback(
    kg: Folder,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=0, help="From `lkge log`.")],
    as_json: AsJson = False,
) -> None:
    """Go back to an old version, by publishing it anew as the newest; the log goes on."""
    from lkge import living

    record = living.open(kg).rollback(version)
    if as_json:
        print_json(dataclasses.asdict(record))
        return
    _print(f"{kg}: version {record.version} is version {version} again")


def export(
    kg: Folder,
    format_: Annotated[Format, typer.Option("--format", help="How the embeddings are written.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to make.")],
    version: AtVersion = None,
    as_json: AsJson = False,
) -> None:
    """Write the embeddings of all entities and relations, with their names, for other programs."""
    from lkge import living

    files = living.open(kg, version).export(out, format_)
    if as_json:
        print_json({"folder": str(out), "files": [file.name for file in files]})
        return
    _print(f"{out}: {', '.join(file.name for file in files)}")


def _show_check(
    store: Store, found: Sequence[Damage], done: Sequence[str], left: Sequence[Damage]
) -> None:
    from lkge.store.inbox import waiting

    for damage in found:
        _print(f"{damage.path}: {damage.reason}", style="red")
    for line in done:
        _print(line)
    if not left:
        count = len(store.versions())
        _print(f"{store.folder}: every byte of {count} versions is as written", style="green")
        if done and waiting(store):
            _print(f"Learn again: {add_line(store.folder)}")
    elif not done:
        advice = shlex.join(["lkge", "check", str(store.folder), "--repair"])
        _print(f"To set aside what is damaged: {advice}")


def _print(line: str, style: str = "") -> None:
    """A line as it is: never folded, never read as markup."""
    console().print(line, style=style, soft_wrap=True, markup=False, highlight=False)
