"""What the commands for living graphs share: the folder, facts from files, versions as tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lkge.cli.output import say_warning

if TYPE_CHECKING:
    from lkge.data.facts import NamedFacts
    from lkge.data.formats import Triple
    from lkge.reports.tables import Cell, Grid
    from lkge.store.records import VersionRecord

Folder = Annotated[Path, typer.Argument(metavar="KG", help="The folder of a living graph.")]
AtVersion = Annotated[
    int | None,
    typer.Option("--version", min=0, help="Ask an older version.", show_default="the newest"),
]
FACT_FILES = "TSV, CSV, N-Triples, Turtle or Parquet, plain or compressed."


def read_files(files: Iterable[Path]) -> list[NamedFacts]:
    """The facts of each file; what the readers found worth telling is said."""
    from lkge.data.facts import read_facts

    read = [read_facts(file) for file in files]
    for facts in read:
        for warning in facts.warnings:
            say_warning(warning)
    return read


def together(read: Iterable[NamedFacts]) -> list[Triple]:
    """The facts of all files in order, each once."""
    return list(dict.fromkeys(fact for facts in read for fact in facts))


def version_grid(record: VersionRecord) -> Grid:
    """All there is to say of one version, line by line."""
    from lkge.reports import text
    from lkge.reports.tables import Cell, Grid

    known = "" if not record.known_facts else f"; {text.count(record.known_facts)} known"
    gone = "" if not record.retracted else f", {text.count(record.retracted)} retracted"
    lines = {
        "facts": f"{text.count(record.facts)} new{gone}{known}",
        "entities": _grown(record.new_entities, record.entities),
        "relations": _grown(record.new_relations, record.relations),
        "MRR of new facts": text.number(record.mrr_new),
        "MRR of old facts": old_mrr(record),
        "drift": f"{text.number(record.drift)}, {text.count(record.touched)} old rows moved",
        "time": f"{text.duration(record.seconds)}, {text.count(record.epochs)} epochs",
    }
    return Grid(
        title=f"Version {record.version}",
        columns=("", text.printable(record.source)),
        sections=(tuple((Cell(name), Cell(value)) for name, value in lines.items()),),
        names=2,
        note=(
            f"MRR of held-out facts, among {text.count(record.candidates)} entities."
            if record.candidates
            else ""
        ),
    )


def log_grid(title: str, log: Sequence[VersionRecord], kept: Iterable[int], note: str) -> Grid:
    """One line a version; those that are no longer on the disk are faint."""
    from lkge.reports.tables import Grid

    there = set(kept)
    return Grid(
        title=title,
        columns=(
            *("#", "when", "what", "facts", "new entities/ relations"),
            *("MRR new", "MRR old", "drift", "time"),
        ),
        sections=(tuple(_log_row(record, record.version in there) for record in log),),
        names=3,
        note=note,
    )


def old_mrr(record: VersionRecord) -> str:
    """MRR of the kept held-out facts of older versions, before and after."""
    from lkge.reports import text

    if math.isnan(record.mrr_old_before):
        return text.number(record.mrr_old)
    return f"{text.number(record.mrr_old_before)} → {text.number(record.mrr_old)}"


def say_warnings(records: Iterable[VersionRecord]) -> None:
    """What learning found worth telling."""
    for record in records:
        for warning in record.warnings:
            say_warning(warning)


def _log_row(record: VersionRecord, kept: bool) -> tuple[Cell, ...]:
    from lkge.reports import text
    from lkge.reports.tables import Cell

    texts = (
        str(record.version),
        record.created.replace("T", " ").removesuffix("+00:00")[: len("2026-01-01 12:00")],
        text.printable(f"{record.kind} {record.source}".strip()),
        text.count(record.facts) + f" {text.count(-record.retracted)}" * bool(record.retracted),
        f"{text.count(record.new_entities)}/{text.count(record.new_relations)}",
        text.number(record.mrr_new),
        old_mrr(record),
        text.number(record.drift),
        text.duration(record.seconds),
    )
    return tuple(Cell(words, faint=not kept) for words in texts)


def _grown(new: int, total: int) -> str:
    from lkge.reports import text

    return f"{text.count(new)} new; {text.count(total)} in all"
