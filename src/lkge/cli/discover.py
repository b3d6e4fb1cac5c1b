"""`lkge suggest` and `lkge explain`: facts that may be missing, and what speaks for a fact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from lkge.cli import ask, grow, output
from lkge.reports import grids, text

if TYPE_CHECKING:
    from lkge.store.reader import Reader
    from lkge.store.suggesting import Suggestions

SHOWN = 20
"""Facts that are printed if the rest is in a file."""


def suggest(
    kg: grow.Folder,
    subject: Annotated[
        str | None, Option("-s", "--subject", help="Only facts with this subject.")
    ] = None,
    relation: Annotated[
        str | None, Option("-r", "--relation", help="Only facts with this relation.")
    ] = None,
    object_: Annotated[
        str | None, Option("-o", "--object", help="Only facts with this object.")
    ] = None,
    k: Annotated[int, Option("-k", "--top", min=1, help="How many facts.")] = 100,
    queries: Annotated[
        int | None,
        Option(min=1, help="How many queries are scored at most.", show_default="by size"),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Write the facts to this file: .csv, .jsonl or .parquet.")
    ] = None,
    version: grow.AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Suggest the most plausible new facts, of an entity, of a relation or of the whole graph."""
    from lkge.store.suggesting import suggest
    from lkge.store.suggestion_files import require_format, write_suggestions

    if out is not None:
        require_format(out)
    reader = grow.opened(kg, version, to_answer=True)
    found = suggest(
        reader, subject=subject, relation=relation, object=object_, k=k, queries=queries
    )
    if out is not None:
        write_suggestions(out, found.facts, reader.labels)
    if as_json:
        output.print_json(_tree(reader, found))
        return
    output.show(_grid(reader, found, SHOWN if out else k))
    if out is not None:
        output.say(f"{out} has {text.count(len(found.facts))} facts.")


def explain(
    kg: grow.Folder,
    subject: Annotated[str, Argument(metavar="SUBJECT", help="The subject of a fact.")],
    relation: Annotated[str, Argument(metavar="RELATION", help="Its relation.")],
    object_: Annotated[str, Argument(metavar="OBJECT", help="Its object.")],
    k: Annotated[int, Option("-k", "--top", min=1, help="How many known facts.")] = 10,
    version: grow.AtVersion = None,
    as_json: output.AsJson = False,
) -> None:
    """Explain a fact, known or not, by the known facts that speak most for it."""
    from lkge.store.explaining import explain

    reader = grow.opened(kg, version, to_answer=True)
    found = explain(reader, subject, relation, object_, k)
    facts = [found.fact[:3], *(reason[:3] for reason in found.reasons)]
    names = [name for fact in facts for name in fact]
    if as_json:
        reasons = [each._asdict() for each in found.reasons]
        tree = {"fact": found.fact._asdict(), "reasons": reasons, "compared": found.compared}
        output.print_json({"version": reader.version, **tree, "labels": reader.labels.of(names)})
        return
    shown = ask.labelling(reader)
    mark = "known" if found.fact.known else "not known"
    title = f"({', '.join(map(shown, found.fact[:3]))}): {mark}, "
    title += f"plausibility {text.number(found.fact.plausibility)}"
    rows = [
        (*map(shown, reason[:3]), reason.text, text.number(reason.weight))
        for reason in found.reasons
    ]
    columns = ("subject", "relation", "object", "", "weight")
    note = f"Of {text.count(found.compared)} known facts that share an entity or the relation."
    output.show(grids.grid_of(title, columns, rows, 4, note))


def _grid(reader: Reader, found: Suggestions, most: int) -> grids.Grid:
    shown = ask.labelling(reader)
    rows = [
        (*map(shown, fact[:3]), ask.bar(fact.plausibility), text.number(fact.plausibility))
        for fact in found.facts[:most]
    ]
    columns = ("subject", "relation", "object", "", "plausibility")
    notes = [_scored(found), ask.calibration_note(reader)]
    return grids.grid_of(
        f"Version {reader.version}", columns, rows, 4, " ".join(filter(None, notes))
    )


def _scored(found: Suggestions) -> str:
    """How much was searched."""
    scored, queries = text.count(found.scored), text.count(found.queries)
    if found.complete:
        return f"Scored {scored} of {queries} queries; no other has a better fact."
    return f"Scored {scored} of {queries} queries; others may have better facts (--queries)."


def _tree(reader: Reader, found: Suggestions) -> dict[str, Any]:
    """Suggestions for JSON."""
    return {
        "version": reader.version,
        "calibrated": reader.calibration.is_known,
        **found._asdict(),
        "facts": [fact._asdict() for fact in found.facts],
        "labels": reader.labels.of(name for fact in found.facts for name in fact[:3]),
    }
