from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from lkge.cli import app
from lkge.cli.flags import option
from lkge.config import RunConfig

ROOT = Path(__file__).parents[1]
CLI_PAGE = ROOT / "docs" / "cli.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def leaves(command: Any, path: tuple[str, ...] = ("lkge",)) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield " ".join(path), command
        return
    for name, subcommand in subcommands.items():
        yield from leaves(subcommand, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))


def options_of(command: Any) -> set[str]:
    options = (option for each in command.params for option in (*each.opts, *each.secondary_opts))
    return {option for option in options if option.startswith("--")} - {"--help"}


SETTINGS = {
    word for each in fields(RunConfig) for word in (option(each.name), option(f"no_{each.name}"))
}
"""Documented under `lkge run`; another section may say that the settings are flags there too."""


def section(name: str) -> str:
    """The text under the heading of a command, up to the next heading."""
    found = re.search(
        rf"^## `{re.escape(name)}[^\n]*`\n(.*?)(?=^## |\Z)",
        CLI_PAGE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return found.group(1) if found else ""


def options_named_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


def test_the_commands_are_those_promised() -> None:
    assert set(COMMANDS) == {
        "lkge init",
        "lkge add",
        "lkge log",
        "lkge predict",
        "lkge similar",
        "lkge score",
        "lkge check",
        "lkge rollback",
        "lkge export",
        "lkge serve",
        "lkge datasets list",
        "lkge datasets stats",
        "lkge datasets fetch",
        "lkge datasets build",
        "lkge methods",
        "lkge run",
        "lkge report",
        "lkge bench",
        "lkge tune",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    assert section(name).strip(), f"docs/cli.md has no section `{name}`"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented_where_its_command_is(name: str) -> None:
    everywhere = {"--json", "--data"}
    config = SETTINGS if name != "lkge run" and "The settings are flags" in section(name) else set()
    missing = options_of(COMMANDS[name]) - everywhere - config - options_named_in(section(name))
    assert not missing
    assert everywhere <= options_named_in(CLI_PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_section_documents_an_option_that_is_not_there(name: str) -> None:
    assert options_named_in(section(name)) <= options_of(COMMANDS[name])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_and_argument_explains_itself(name: str) -> None:
    assert COMMANDS[name].help
    assert all(each.help for each in COMMANDS[name].params)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_and_benchmark_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_promise_names_what_keeps_it() -> None:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    promises = [line for line in page.splitlines() if re.match(r"\| [A-Z`]", line)]
    assert len(promises) > 15
    assert [line for line in promises if "`tests/" not in line and "the same" not in line] == []


def test_every_module_of_the_store_has_a_room() -> None:
    rooms = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    stems = {path.name for path in (ROOT / "src" / "lkge" / "store").glob("[a-z]*.py")}
    assert [name for name in sorted(stems) if f"{name}`" not in rooms] == []


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    def rows(page: Path) -> list[str]:
        lines = page.read_text(encoding="utf-8").splitlines()
        start = lines.index("| System | ENTITY | RELATION | FACT | HYBRID |")
        return list(takewhile(lambda line: line.startswith("|"), lines[start:]))

    shown = rows(ROOT / "README.md")
    assert len(shown) > 4
    assert shown == rows(ROOT / "results" / "paper" / "README.md")
