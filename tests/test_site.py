"""The site of the documentation, and the notebooks in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from tests.scripts import script_named
from tests.test_docs import COMMANDS, options_of

import lkge

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LOADING = {"href": ("link",), "src": ("script", "img", "iframe", "source"), "data": ("object",)}
"""Attributes by which a page loads something, and their tags."""


@pytest.fixture
def notebooks() -> Iterator[ModuleType]:
    with script_named("notebooks") as module:
        yield module


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_kept_without_outputs(notebook: Path, notebooks: ModuleType) -> None:
    assert '"execution_count": null' in (text := notebook.read_text(encoding="utf-8"))
    assert re.findall(r'"(?:outputs|execution_count)": (?!\[\]|null)', text) == []
    page = notebooks.as_markdown(notebooks.run(notebook))
    assert page.startswith("# ")
    for text in EXPECTED[notebook.stem]:
        assert re.search(text, page), page


EXPECTED = {
    "daily-growth": (r"[45] of 5 are right", r"good: MRR", r"<th>plausibility</th>"),
    "compare-methods": (r"re-train +0\.3", r"fine-tune +0\.0", r"src=.data:image/png;base64"),
    "own-method": (r"facts\.entity' of `state` still holds", r"s = [\d.]+: test MRR 0\.2"),
}
"""What the outputs of each have, as regular expressions."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does, but for the outputs of notebooks."""
    if find_spec("material") is None or find_spec("mkdocstrings") is None:
        pytest.skip("the extra docs is not installed: pip install -e '.[docs]'")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder, extra = tmp_path_factory.mktemp("site"), {"generator": False, "run_notebooks": False}
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True, extra=extra)
    build(config)
    return folder


class Resources(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded = list[str]()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.loaded += [
            given[name] for name, tags in LOADING.items() if tag in tags and name in given
        ]
        self.loaded += re.findall(r"url\(([^)]+)\)", given.get("style", ""))


def test_pages_load_nothing_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert [url for url in Resources(page).loaded if re.match(r"(\w+:)?//", url)] == []
    for sheet in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?:\w+:)?//|@import", sheet.read_text("utf-8")) == []


def test_the_reference_has_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    names = {f"lkge.{name}" for name in lkge.__all__} - {"lkge.__version__"}
    assert [name for name in names if f'id="{name}"' not in page] == []


def test_the_reference_has_the_queries_of_a_graph_and_the_fields_of_answers(site: Path) -> None:
    page = re.sub(r"<[^>]+>", "", (site / "api.html").read_text(encoding="utf-8"))
    signature = re.search(r"predict\((.*?)\) -&gt;", page, re.DOTALL)
    assert signature
    assert signature[1].split()[:2] == ["*,", "relation:"]
    assert re.search(r"Prediction\(\s*entity: str,\s*score: float,", page)


def test_every_option_is_on_the_page_of_options(site: Path) -> None:
    page = (site / "options.html").read_text(encoding="utf-8")
    sections = re.split(r"<h2 ", page)[1:]
    assert len(sections) == len(COMMANDS)
    for section, (name, command) in zip(sections, COMMANDS.items(), strict=True):
        assert f"<code>{name}</code>" in section
        assert [option for option in options_of(command) if option not in section] == []


def test_links_out_of_the_folder_lead_to_pages_of_the_site(site: Path) -> None:
    page = (site / "deviations.html").read_text(encoding="utf-8")
    links = re.findall(r'href="(results/[^"#]+)', page)
    assert len(links) > 3
    assert [link for link in links if not (site / link).is_file()] == []
