"""Settings on the command line: a flag for the common ones, and `--set` for all."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lkge.common_settings import COMMON
from lkge.errors import SettingsError

if TYPE_CHECKING:
    from lkge.config import RunConfig
    from lkge.sizing import Size

DEFAULTS = {"method": "evergreen", "dataset": "brick", "seed": "11", "device": "cpu"}
"""What `--help` shows as default; the others have that of the preset."""

Command = Callable[..., None]


def option(name: str) -> str:
    """The flag of a setting: `batch_size` is `--batch-size`."""
    return "--" + name.replace("_", "-")


def given_as(name: str) -> str:
    """How a setting is written on the command line: its flag, or `--set` with its name."""
    return option(name) if name in COMMON else f"--set {name}"


def config_from(
    file: Path | None,
    flags: Mapping[str, Any],
    preset: str | None,
    *,
    living: bool = False,
    size: Size | None = None,
) -> RunConfig:
    """A flag outweighs the file, the file outweighs the preset, and what is left follows from the
    size of the graph."""
    from lkge.config import RunConfig
    from lkge.configure import changes_in, configure

    named = {} if file is None else changes_in(file)
    method = flags.get("method", flags.get("method.name"))
    if method not in (None, named.get("method.name")):
        named = {key: value for key, value in named.items() if not key.startswith("method.")}
    places = {flag: ".".join(RunConfig().place(flag)) for flag in COMMON}
    by_section = {places.get(name, name): value for name, value in flags.items()}
    return configure(named | by_section, preset, living=living, size=size)


def takes_settings(command: Command, *, leave_out: frozenset[str] = frozenset()) -> Command:
    """Give a command the common flags and `--set`; what is given reaches it in `flags`."""
    names = [name for name in COMMON if name not in leave_out]

    @functools.wraps(command)
    def with_flags(*, assignments: list[str] | None, **given: Any) -> None:
        flags = {name: given.pop(name) for name in names}
        flags = {name: value for name, value in flags.items() if value is not None}
        command(flags=flags | assigned(assignments or []), **given)

    own = inspect.signature(command, eval_str=True).parameters.values()
    added = {name: _flag(name) for name in names} | {"assignments": Assignments}
    keyword = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        *(parameter for parameter in own if parameter.name != "flags"),
        *(keyword(name, default=None, annotation=kind) for name, kind in added.items()),
    ]
    with_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_flags.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_flags


Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.NAME=VALUE",
        help="Any setting, such as method.replay_weight=2 or training.loss=softmax; may be "
        "repeated. `lkge methods show NAME` lists a method's own, docs/config.md all.",
        rich_help_panel="Settings",
    ),
]


def assigned(assignments: Sequence[str]) -> dict[str, Any]:
    """The settings of `--set SECTION.NAME=VALUE`; a value is TOML, or else text."""
    found: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name.strip() and equals):
            raise SettingsError(
                f"--set {assignment}: write SECTION.NAME=VALUE, such as method.replay_weight=2"
            )
        found[name.strip()] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    from lkge.data.documents import parse_toml

    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def _flag(name: str) -> Any:
    """The flag of a common setting."""
    kind, text = COMMON[name]
    default = DEFAULTS.get(name, "the preset's")
    given = typer.Option(option(name), help=text, rich_help_panel="Settings", show_default=default)
    return Annotated[kind | None, given]
