"""`lkge methods`: the methods, what each keeps, and the settings of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lkge.cli import output
from lkge.reports import grids

if TYPE_CHECKING:
    from lkge.config import Section
    from lkge.methods import Method

app = typer.Typer(help="List the methods, or show the settings of one.")


@app.callback(invoke_without_command=True)
def command(context: typer.Context, as_json: output.AsJson = False) -> None:
    """List the methods, and what each keeps from one snapshot to the next."""
    if context.invoked_subcommand is not None:
        return
    methods = _in_order()
    if as_json:
        output.print_json([_plain(method) for method in methods])
        return
    rows = [(each.name, each.summary, each.keeps) for each in methods]
    output.show(grids.grid_of("Methods", ("Method", "What it does", "Keeps"), rows, names=3))


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A name from `lkge methods`.")],
    as_json: output.AsJson = False,
) -> None:
    """Show a method: what it does, what it keeps, and its own settings."""
    from lkge.methods import method_named

    method = method_named(name)
    if as_json:
        output.print_json(_plain(method))
        return
    screen = output.console()
    screen.print(f"{method.name}: {method.summary}. Keeps {method.keeps}.", soft_wrap=True)
    settings = settings_of(method.Config)
    if not settings:
        screen.print("It has no settings of its own.")
        return
    rows = [
        (f"method.{setting}", _text(default), ", ".join(map(_text, grid)), description)
        for setting, default, description, grid in map(dict.values, settings)
    ]
    columns = ("Setting", "Default", "lkge tune", "What it does")
    output.show(grids.grid_of("Settings", columns, rows, names=4))
    screen.print(f"Set one with: lkge run --method {name} --set {rows[0][0]}=VALUE")


def settings_of(section: type[Section]) -> list[dict[str, Any]]:
    """The settings of a section: name, default, description, and the values that tune tries."""
    grid = section.grid()
    return [
        {
            "name": name,
            "default": field.default,
            "description": field.description or "",
            "grid": list(grid.get(name, ())),
        }
        for name, field in section.model_fields.items()
        if name != "name"
    ]


def _plain(method: type[Method]) -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "keeps": method.keeps,
        "settings": settings_of(method.Config),
    }


def _in_order() -> list[type[Method]]:
    """The default first, then as in the paper's tables, then all others."""
    from lkge.methods import known_methods
    from lkge.studies.study import PAPER, study_named

    known = known_methods()
    paper = [name for name in study_named(PAPER).specs if name in known]
    return [known[name] for name in dict.fromkeys(["evergreen", *paper, *sorted(known)])]


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
