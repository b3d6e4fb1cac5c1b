"""`lkge methods`: the methods, what each keeps, and the settings of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lkge.cli import output
from lkge.reports import grids

if TYPE_CHECKING:
    from lkge.config import Section
    from lkge.methods.profiles import Profile

app = typer.Typer(help="List the methods, or show the settings of one.")


@app.callback(invoke_without_command=True)
def command(context: typer.Context, as_json: output.AsJson = False) -> None:
    """List the methods, and what each keeps from one snapshot to the next."""
    if context.invoked_subcommand is not None:
        return
    methods = _in_order()
    if as_json:
        output.print_json([_plain(name, method) for name, method in methods.items()])
        return
    rows = [(name, each.summary, each.keeps) for name, each in methods.items()]
    output.show(grids.grid_of("Methods", ("Method", "What it does", "Keeps"), rows, names=3))


@app.command("show")
def show_one(
    name: Annotated[str, typer.Argument(help="A name from `lkge methods`.")],
    as_json: output.AsJson = False,
) -> None:
    """Show a method: what it does, what it keeps, and its own settings."""
    from lkge.methods.profiles import profile_of

    method = profile_of(name)
    if as_json:
        output.print_json(_plain(name, method))
        return
    screen = output.console()
    screen.print(f"{name}: {method.summary}. Keeps {method.keeps}.", soft_wrap=True)
    settings = settings_of(method.config)
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


def _plain(name: str, method: Profile) -> dict[str, Any]:
    return {
        "name": name,
        "summary": method.summary,
        "keeps": method.keeps,
        "settings": settings_of(method.config),
    }


def _in_order() -> dict[str, Profile]:
    """Those of this package first, the default before the others."""
    from lkge.methods.profiles import BUILT_IN, profiles

    known = profiles()
    return {name: known[name] for name in dict.fromkeys([*BUILT_IN, *sorted(known)])}


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
