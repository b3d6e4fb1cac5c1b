"""`lkge methods`: the systems that can learn."""

from __future__ import annotations

from lkge.cli.output import AsJson, console, print_json


def command(as_json: AsJson = False) -> None:
    """List the methods, and what each keeps from one snapshot to the next."""
    from lkge.methods import known_methods
    from lkge.reports.tables import Cell, Grid, rich_table
    from lkge.studies.study import PAPER, study_named

    known = known_methods()
    paper = [name for name in study_named(PAPER).specs if name in known]
    methods = [known[name] for name in dict.fromkeys([*paper, *sorted(known)])]
    if as_json:
        print_json(
            [
                {"name": each.name, "summary": each.summary, "keeps": each.keeps}
                | {"tunes": {name: list(values) for name, values in each.tunes.items()}}
                for each in methods
            ]
        )
        return
    rows = [(Cell(each.name), Cell(each.summary), Cell(each.keeps)) for each in methods]
    columns = ("Method", "What it does", "Keeps")
    console().print(rich_table(Grid("Methods", columns, (tuple(rows),), names=3)))
