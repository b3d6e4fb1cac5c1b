from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import lkge
from lkge.cli import app
from lkge.config import RunConfig
from lkge.configure import LIVING, PRESETS, configure
from lkge.methods import METHODS

ROOT = Path(__file__).parents[1]
CLI_PAGE = ROOT / "docs" / "cli.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def leaves(command: Any, path: tuple[str, ...] = ("lkge",)) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    subcommands = getattr(command, "commands", {})
    if not subcommands or (command.invoke_without_command and len(path) > 1):
        yield " ".join(path), command
    for name, subcommand in subcommands.items():
        yield from leaves(subcommand, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))


def options_of(command: Any) -> set[str]:
    options = (option for each in command.params for option in (*each.opts, *each.secondary_opts))
    return {option for option in options if option.startswith("--")} - {"--help"}


def section(name: str) -> str:
    """The text under the heading of a command, up to the next heading."""
    found = re.search(
        rf"^## `{re.escape(name)}(?: [^a-z\n][^\n]*)?`\n(.*?)(?=^## |\Z)",
        CLI_PAGE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return found.group(1) if found else ""


def options_named_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text))


def test_the_commands_are_those_of_the_page() -> None:
    assert set(COMMANDS) == {
        "lkge init",
        "lkge compact",
        "lkge backup",
        "lkge migrate",
        "lkge add",
        "lkge edit",
        "lkge relearn",
        "lkge log",
        "lkge health",
        "lkge queue",
        "lkge config",
        "lkge predict",
        "lkge similar",
        "lkge score",
        "lkge find",
        "lkge suggest",
        "lkge explain",
        "lkge verify",
        "lkge rollback",
        "lkge tag",
        "lkge keep",
        "lkge export",
        "lkge serve",
        "lkge datasets list",
        "lkge datasets stats",
        "lkge datasets fetch",
        "lkge datasets build",
        "lkge methods",
        "lkge methods show",
        "lkge run",
        "lkge report",
        "lkge bench",
        "lkge bench streams",
        "lkge tune",
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    assert section(name).strip(), f"docs/cli.md has no section `{name}`"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented_where_its_command_is(name: str) -> None:
    everywhere = {"--json", "--data"}
    missing = options_of(COMMANDS[name]) - everywhere - options_named_in(section(name))
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
def test_every_test_benchmark_and_result_that_is_named_exists(page: Path) -> None:
    pattern = r"`((?:tests|benchmarks|results|scripts)/[\w/.-]+\.(?:py|json|md|toml))`"
    named = re.findall(pattern, page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_promise_names_what_keeps_it() -> None:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    promises = [line for line in page.splitlines() if re.match(r"\| [A-Z`]", line)]
    assert len(promises) > 15
    assert [line for line in promises if "`tests/" not in line and "the same" not in line] == []


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "lkge"


def test_every_module_of_the_store_is_on_the_map() -> None:
    names = sorted(path.name for path in (SOURCE / "store").glob("[a-z]*.py"))
    assert [name for name in names if f"{name}`" not in ARCHITECTURE] == []


def test_the_map_is_that_of_the_tree() -> None:
    tree = re.search(r"^src/lkge/\n(.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert tree
    lines = [line.split() for line in tree.group(1).splitlines() if re.match(r"  \S", line)]
    folders = {words[0].rstrip("/") for words in lines if words[0].endswith("/")}
    there = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == there
    files = {word.rstrip(",") for words in lines for word in words[:3] if "/" not in words[0]}
    files = {name for name in files if name.endswith(".py")}
    assert files == {path.name for path in SOURCE.glob("[a-z]*.py")}


def test_the_files_that_the_architecture_names_exist() -> None:
    paths = re.findall(r"`(\w+(?:/\w+)*/\w+\.py)`", ARCHITECTURE)
    assert len(paths) > 5
    assert [path for path in paths if not (SOURCE / path).is_file()] == []
    names = {path.name for path in SOURCE.rglob("*.py")}
    assert set(re.findall(r"\b([a-z_]+\.py)\b", ARCHITECTURE)) <= names


def test_the_layers_are_those_of_import_linter() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    checked = [layer.replace("lkge.", "") for layer in contract["layers"]]
    shown = re.search(r"^```\n(cli >.*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert shown
    assert [" ".join(layer.split()) for layer in shown.group(1).split(">")] == checked


def test_the_files_of_a_store_are_those_that_the_page_lists(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")
    listed = re.search(r"^KG/\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert listed
    names = {
        part
        for line in listed.group(1).splitlines()
        for part in re.split(r"[/, ]+", re.split(r"\s{2,}", line.strip())[0])
    } - {""}
    kg = lkge.init(tmp_path / "KG", dim=4, backend="torch", max_epochs=1)
    kg.add([("a", "r", "b"), ("b", "r", "c"), ("c", "r", "a")], valid=0.4)
    kg.add([("a", "r", "b")])
    kg.tag("first")
    made = {path.name for path in (tmp_path / "KG").rglob("*")} - {"000001"}
    assert made <= names
    come_and_go = {
        "00000001.json",
        "learning",
        "damaged",
        "relearn.json",
        "set_aside",
        "labels.json",
    }
    come_and_go |= {"verified.json", "000002-model-delta.safetensors"}
    assert names - made == come_and_go


CONFIG_PAGE = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")


def rows_of(page: str) -> Iterator[list[str]]:
    """The cells of each row of its tables."""
    for line in page.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def names_of(cell: str) -> list[str]:
    """`section.a`, `b` as section.a and section.b."""
    names = re.findall(r"`([\w.]+)`", cell)
    section = names[0].partition(".")[0] if names else ""
    return [name if "." in name else f"{section}.{name}" for name in names]


def test_the_settings_page_has_every_setting_and_its_default() -> None:
    config = RunConfig()
    wanted = {
        f"{section}.{name}": getattr(getattr(config, section), name)
        for section in ("model", "training")
        for name in type(getattr(config, section)).model_fields
    }
    start = CONFIG_PAGE.index("## `[model]` and `[training]`")
    found: dict[str, str] = {}
    for name, default, _ in (row for row in rows_of(CONFIG_PAGE[start:]) if len(row) == 3):
        found |= zip(names_of(name), default.split(", "), strict=False)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert found[name] in (text, text.removesuffix(".0")) or float(found[name]) == value


def test_the_settings_page_has_every_preset_and_the_difference_of_living() -> None:
    presets = {row[0].strip("`") for row in rows_of(CONFIG_PAGE)}
    assert set(PRESETS) <= presets
    start, end = CONFIG_PAGE.index("these settings:"), CONFIG_PAGE.index("## `[model]`")
    shown: dict[str, tuple[str, str]] = {}
    for names, before, after in rows_of(CONFIG_PAGE[start:end]):
        values = zip(before.split(", "), after.split(", "), strict=True)
        if "." in names:
            shown |= zip(names_of(names), values, strict=True)
    usual, living = configure(), configure({}, "living")
    assert {name.partition(".")[2] for name in shown} == set(LIVING)
    for name, (before, after) in shown.items():
        for text, config in ((before, usual), (after, living)):
            assert str(config.get(name)).lower() in (text, f"{text}.0")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:dataset|model|training|method)\.[a-z]\w*)(?:`|=| )", text))
    named |= set(re.findall(r"--set ((?:dataset|model|training|method)\.\w+)=", text))
    configs = [configure({"method": method}) for method in METHODS]
    files = {"model.safetensors", "model.json"}
    made_on_the_page = {"method.strength"} if page.name == "add-a-method.md" else set()
    unknown = {name for name in named if not any(config.has(name) for config in configs)}
    assert unknown - files - made_on_the_page == set()


def test_the_errors_of_the_settings_page_are_those_of_the_command() -> None:
    errors = re.findall(r"^\$ lkge (.*)\n(error: .*)$", CONFIG_PAGE, re.MULTILINE)
    assert len(errors) > 1
    for words, error in errors:
        done = CliRunner().invoke(app, shlex.split(words))
        assert (done.exit_code, done.stderr.strip()) == (2, error)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_words_are_those_of_the_field(page: Path) -> None:
    """The changelog names what was renamed."""
    private = r"\b(told|by heart|rivals?|lessons?|asked|heart|retell\w*|sealed|rehears\w*)\b"
    found = re.findall(private, page.read_text(encoding="utf-8"))
    assert not found or page.name == "CHANGELOG.md"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_the_table_of_the_readme_is_that_of_the_results() -> None:
    def rows(page: Path) -> list[str]:
        lines = page.read_text(encoding="utf-8").splitlines()
        start = lines.index("| System | ENTITY | RELATION | FACT | HYBRID |")
        return list(takewhile(lambda line: line.startswith("|"), lines[start:]))

    shown = rows(ROOT / "README.md")
    assert len(shown) > 4
    assert shown == rows(ROOT / "results" / "paper" / "README.md")
