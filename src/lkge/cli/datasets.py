"""`lkge datasets`: list, describe, download and build growing graphs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from lkge.cli import output
from lkge.cli.previewed import FACT_FILES, Columns, FileFormat
from lkge.reports import grids

Growth = Literal["entity", "relation", "fact", "hybrid"]
Name = Annotated[
    str, Argument(metavar="NAME", help="A name from `lkge datasets list`, a folder or a zip.")
]

STATS = (
    *("snapshot", "new_facts", "train", "valid", "test"),
    *("entities", "new_entities", "relations", "new_relations"),
)
"""Counts of a snapshot in the order of the table."""
SHORT = {"snapshot": "#", "new_facts": "facts", "new_entities": "new", "new_relations": "new"}

app = Typer(no_args_is_help=True, help="List, describe, download and build growing graphs.")


@app.command("list")
def list_(data: output.DataPath = None, as_json: output.AsJson = False) -> None:
    """List the datasets that can be learned by name."""
    from lkge.data.catalog import list_datasets

    infos = list_datasets(data)
    if as_json:
        output.print_json(infos)
        return
    missing = not all(info.available for info in infos)
    note = "What has no place yet comes with `lkge datasets fetch NAME`." if missing else ""
    rows = [(info.name, info.description, info.place or "") for info in infos]
    output.show(
        grids.grid_of("Datasets", ("name", "description", "place"), rows, names=3, note=note)
    )


@app.command()
def stats(name: Name, data: output.DataPath = None, as_json: output.AsJson = False) -> None:
    """Count entities, relations and facts, snapshot by snapshot."""
    from lkge.data import catalog

    graph = catalog.load(name, data)
    _print_stats(graph.name, catalog.stats(graph), as_json)
    output.say_warnings(graph.warnings)


@app.command()
def fetch(
    name: Annotated[str, Argument(metavar="NAME", help="A name from `lkge datasets list`.")],
    url: Annotated[
        str | None, Option(help="Another address of the same archive.", show_default="its own")
    ] = None,
) -> None:
    """Download a dataset, check it, and keep it in the cache."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from lkge.data import catalog

    columns = ("{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn())
    screen = output.console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(name, total=None)

        def show_bytes(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        place = catalog.fetch(name, url=url, progress=show_bytes)
    output.say(f"{name} is in {place}")


@app.command()
def build(
    source: Annotated[Path, Argument(metavar="SOURCE", help=f"A file of facts: {FACT_FILES}")],
    growth: Annotated[Growth, Option(help="What grows evenly from snapshot to snapshot.")],
    out: Annotated[Path, Option(help="The folder to make.")],
    snapshots: Annotated[int, Option(help="How many snapshots to cut.", min=1)] = 5,
    columns: Columns = None,
    file_format: FileFormat = None,
    seed: Annotated[int, Option(help="The same seed cuts the same snapshots.", min=0)] = 0,
    as_json: output.AsJson = False,
) -> None:
    """Cut any graph into growing snapshots, as the paper does."""
    from lkge.cli.grow import read_files
    from lkge.data import catalog, folders
    from lkge.data.snapshots import GrowingGraph

    output.require_unused(out, "name another folder with --out")
    read = read_files([source], columns, file_format, warn=False)
    graph = GrowingGraph.from_facts(
        read, growth=growth, snapshots=snapshots, seed=seed, name=out.resolve().name
    )
    folders.write_growing_graph(graph, out)
    _print_stats(f"{graph.name}, in {out}", catalog.stats(graph), as_json)
    output.say_warnings(graph.warnings)


def _print_stats(title: str, rows: Sequence[Mapping[str, int]], as_json: bool) -> None:
    if as_json:
        output.print_json(rows)
        return
    cells = [[f"{row[key]:,}" for key in STATS] for row in rows]
    columns = [SHORT.get(key, key) for key in STATS]
    note = "Facts are those that a snapshot adds; entities and relations those seen by then."
    output.show(grids.grid_of(title, columns, cells, note=note))
