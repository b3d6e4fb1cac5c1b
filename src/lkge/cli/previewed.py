"""What `--preview` shows, and the options of files that are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from lkge.cli import output
from lkge.reports import grids, text

if TYPE_CHECKING:
    from lkge.store.preview import Preview

FACT_FILES = (
    "TSV, CSV, JSON Lines, Parquet, N-Triples, N-Quads, Turtle, TriG, RDF/XML or JSON-LD, plain or "
    "compressed; a folder of such files; or - for standard input."
)
Columns = Annotated[
    str | None,
    Option(
        metavar="subject=NAME,relation=NAME,object=NAME",
        help="The columns of tables, by the names in their header, or by number without a header.",
    ),
]
FileFormat = Annotated[
    str | None,
    Option(
        "--format",
        metavar="FORMAT",
        help="The format of all files, such as csv or ttl.gz; needed for standard input.",
        show_default="that of the file name",
    ),
]
OnlyPreview = Annotated[
    bool,
    Option(
        "--preview", help="Show how the files are read and what of them is new; change nothing."
    ),
]


def show_preview(preview: Preview, as_json: bool) -> None:
    """Print a preview as tables or as JSON."""
    if as_json:
        output.print_json(preview)
        return
    files = [
        (text.printable(file.source), text.count(file.facts), *_columns(file.columns), header)
        for file in preview.files
        for header in [text.printable(", ".join(file.header))]
    ]
    names = ("file", "facts", "subject", "relation", "object", "header")
    facts = [tuple(map(text.printable, fact)) for fact in preview.sample]
    tables = [
        grids.grid_of("How the files are read", names, files, names=1),
        grids.grid_of("The first facts", ("subject", "relation", "object"), facts, names=3),
        grids.grid_of("What is new", ("", ""), _counts(preview), names=1),
    ]
    if preview.doubts:
        doubts = [
            (each.kind, text.printable(each.name), text.printable(each.reason))
            for each in preview.doubts
        ]
        more = preview.num_doubts - len(doubts)
        note = f"{text.count(more)} more." if more else ""
        tables.append(
            grids.grid_of("Doubtful names", ("", "name", "why"), doubts, names=3, note=note)
        )
    output.show(*tables)
    output.say_warnings(warning for file in preview.files for warning in file.warnings)
    output.say("Nothing was changed.")


def _columns(columns: object) -> Sequence[str]:
    chosen = columns.values() if isinstance(columns, dict) else ("", "", "")
    return [text.printable(each) for each in chosen]


def _counts(preview: Preview) -> Iterator[tuple[str, str]]:
    new = "unknown" if preview.new_facts is None else text.count(preview.new_facts)
    yield "facts", f"{new} of {text.count(preview.facts)}"
    yield "entities", text.count(preview.new_entities)
    yield "relations", text.count(preview.new_relations)
