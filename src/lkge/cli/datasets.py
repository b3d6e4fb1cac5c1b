"""`lkge datasets`: list, describe, download and build growing graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lkge.cli.output import AsJson, DataPath, console, print_json, require_unused, say_warning

if TYPE_CHECKING:
    from collections.abc import Callable

    from lkge.data.snapshots import GrowingGraph

Growth = Literal["entity", "relation", "fact", "hybrid"]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A name from `lkge datasets list`, a folder or a zip.")
]

STATS_HEADINGS = {
    "snapshot": "#",
    "new_facts": "facts",
    "train": "train",
    "valid": "valid",
    "test": "test",
    "entities": "entities",
    "new_entities": "new",
    "relations": "relations",
    "new_relations": "new",
}
"""Counts of a snapshot in the order of the table, and their short headings."""

app = typer.Typer(no_args_is_help=True, help="List, describe, download and build growing graphs.")


@app.command("list")
def list_(data: DataPath = None, as_json: AsJson = False) -> None:
    """List the datasets that can be learned by name."""
    from lkge.data.catalog import list_datasets

    infos = list_datasets(data)
    if as_json:
        print_json([dataclasses.asdict(info) for info in infos])
        return
    missing = not all(info.available for info in infos)
    _print_table(
        "Datasets",
        ("name", "description", "place"),
        [(info.name, info.description, info.place or "") for info in infos],
        names=3,
        note="What has no place yet comes with `lkge datasets fetch NAME`." if missing else "",
    )


@app.command()
def stats(name: Name, data: DataPath = None, as_json: AsJson = False) -> None:
    """Count entities, relations and facts, snapshot by snapshot."""
    from lkge.data import catalog

    graph = catalog.load(name, data)
    _print_stats(graph.name, catalog.stats(graph), as_json)
    _pass_on_warnings(graph)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `lkge datasets list`.")],
    url: Annotated[
        str | None,
        typer.Option(help="Another address of the same archive.", show_default="its own"),
    ] = None,
) -> None:
    """Download a dataset, check it, and keep it in the cache."""
    from lkge.data import catalog

    with _download_bar(name) as progress:
        place = catalog.fetch(name, url=url, progress=progress)
    typer.echo(f"{name} is in {place}")


@app.command()
def build(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="A file of facts: TSV, CSV, N-Triples, Parquet …"),
    ],
    growth: Annotated[Growth, typer.Option(help="What grows evenly from snapshot to snapshot.")],
    out: Annotated[Path, typer.Option(help="The folder to make.")],
    snapshots: Annotated[int, typer.Option(help="How many snapshots to cut.", min=1)] = 5,
    seed: Annotated[int, typer.Option(help="The same seed cuts the same snapshots.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Cut any graph into growing snapshots, as the paper does."""
    from lkge.data.catalog import stats
    from lkge.data.facts import read_facts
    from lkge.data.folders import write_growing_graph
    from lkge.data.growth import build_growing_graph

    require_unused(out, "name another folder with --out")
    facts = read_facts(source)
    graph = build_growing_graph(
        facts.subjects,
        facts.relations,
        facts.objects,
        growth=growth,
        snapshots=snapshots,
        seed=seed,
        name=out.resolve().name,
    )
    write_growing_graph(graph, out)
    _print_stats(f"{graph.name}, in {out}", stats(graph), as_json)
    _pass_on_warnings(graph, *facts.warnings)


def _print_stats(title: str, rows: Sequence[Mapping[str, int]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    cells = [tuple(f"{row[key]:,}" for key in STATS_HEADINGS) for row in rows]
    note = "Facts are those that a snapshot adds; entities and relations those seen by then."
    _print_table(title, tuple(STATS_HEADINGS.values()), cells, note=note)


def _print_table(
    title: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    names: int = 1,
    note: str = "",
) -> None:
    from lkge.reports.tables import Cell, Grid, rich_table

    cells = tuple(tuple(map(Cell, row)) for row in rows)
    console().print(rich_table(Grid(title, columns, (cells,), names, note)))


def _pass_on_warnings(graph: GrowingGraph, *more: str) -> None:
    for warning in (*more, *graph.warnings):
        say_warning(warning)


@contextmanager
def _download_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal's stderr; it is told the bytes so far and, where known, in all."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
