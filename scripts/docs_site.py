"""What mkdocs needs to make a site of `docs/`; `make docs` builds it.

Links that leave `docs/` lead to copies in the site. Notebooks are run and become pages. The page
of options is made from the commands, the Python reference from docstrings.
"""

from __future__ import annotations

import copy
import html
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import griffe
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "scripts"))

import notebooks  # noqa: E402

LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
"""Text, path and fragment of a link or an image within the repository."""
TYPE = re.compile(r" <[^|>]*>$")
"""The type of an option, such as <path>."""
SOURCES: dict[str, str] = {}
"""Place of a page in the site → path of its file in the repository."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not Markdown in `docs/`."""
    SOURCES.clear()
    paths = [f"docs/{file.src_uri}" for file in files]
    for path in paths:
        place = place_of(path)
        if path.endswith(".ipynb"):
            cells = notebooks.run if config.extra["run_notebooks"] else notebooks.cells_of
            page = notebooks.as_markdown(cells(ROOT / path))
            files.append(File.generated(config, place, content=page))
        elif not path.startswith("docs/"):
            unlisted = {"inclusion": InclusionLevel.NOT_IN_NAV}
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path), **unlisted))
        SOURCES[place] = path
        paths += [new for new in dict.fromkeys(links_of(path)) if new not in paths]
    files.append(File.generated(config, "options.md", content=options_page()))
    return files


def links_of(path: str) -> Iterator[str]:
    """The files of the repository that a page links to."""
    if path.endswith(".md"):
        for found in LINK.finditer((ROOT / path).read_text(encoding="utf-8")):
            linked = target(path, found[2])
            if (ROOT / linked).is_file():
                yield linked


def target(path: str, link: str) -> str:
    """The path in the repository that a relative link of a page leads to."""
    return os.path.normpath(os.path.join(os.path.dirname(path), link))


def place_of(path: str) -> str:
    """Where a file of the repository is in the site. A README is named as its folder, because some
    folders have an index of their own."""
    place = PurePosixPath(path.removeprefix("docs/"))
    if place.name == "README.md":
        place = place.parent.with_suffix(".md") if place.parent.name else PurePosixPath("about.md")
    return str(place.with_suffix(".md") if place.suffix == ".ipynb" else place)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between files become links between pages; one to a folder becomes text."""
    place = page.file.src_uri
    if place not in SOURCES:
        return markdown

    def in_site(link: re.Match[str]) -> str:
        text, path, fragment = link[1], target(SOURCES[place], link[2]), link[3] or ""
        if (ROOT / path).is_dir():
            return text
        return f"[{text}]({os.path.relpath(place_of(path), os.path.dirname(place))}{fragment})"

    return LINK.sub(in_site, markdown)


def options_page() -> str:
    """Every command with its arguments and options, as `--help` shows them."""
    from lkge.cli import app

    lines = ["# Options of all commands", "", "As `--help` prints them. [Command line](cli.md) has"]
    lines += ["explanations and examples.", ""]
    for name, command in commands(typer.main.get_command(app)):
        context = typer.Context(command, info_name=name)
        found = [each.get_help_record(context) for each in command.params]
        records = [(TYPE.sub("", left), text) for left, text in found]
        arguments = [
            left
            for each, (left, _) in zip(command.params, records, strict=True)
            if each.param_type_name == "argument"
        ]
        lines += [f"## `{name}`", "", html.escape(command.help, quote=False), ""]
        lines += ["```", " ".join([name, "[OPTIONS]", *arguments]), "```", ""]
        lines += ["| option | meaning |", "| --- | --- |"]
        lines += [f"| `{left}` | {html.escape(text, quote=False)} |" for left, text in records]
        lines.append("")
    return "\n".join(lines)


def commands(command: Any, name: str = "lkge") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    below = getattr(command, "commands", {})
    if not below or (command.invoke_without_command and name != "lkge"):
        yield name, command
    for word, each in below.items():
        yield from commands(each, f"{name} {word}")


class Signatures(griffe.Extension):
    """Signatures that the source has not: the fields of named tuples, and the queries of a living
    graph, such as `predict = _rows_of_open_version(Reader.predict)`."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        if "NamedTuple" in map(str, cls.bases):
            fields = [each for each in cls.members.values() if each.is_attribute]
            names = [("self", None), *((each.name, each.annotation) for each in fields)]
            kind = griffe.ParameterKind.positional_or_keyword
            parameters = (griffe.Parameter(name, annotation=a, kind=kind) for name, a in names)
            made = griffe.Function("__init__", parameters=griffe.Parameters(*parameters))
            cls.set_member("__init__", made)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        graph = pkg["store.graph.LivingGraph"]
        for name, member in list(graph.members.items()):
            call = getattr(member, "value", None)
            if str(getattr(call, "function", "")).endswith("_of_open_version"):
                query = graph.module[str(call.arguments[0])]
                method = copy.copy(query.final_target if query.is_alias else query)
                method.parent, method.name = graph, name
                method.parameters = griffe.Parameters(*list(method.parameters)[1:])
                graph.set_member(name, method)
