"""One HTML page with everything in it: no other file, font or host is asked for."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from lkge.data.files import write_text_atomically
from lkge.errors import RunError
from lkge.evaluation.results import Results
from lkge.reports import drawing, tables
from lkge.reports.figures import Drawing, draw, write_drawings
from lkge.reports.html import Html, join, tag
from lkge.reports.sections import dataset_section, scroll
from lkge.reports.systems import System, by_dataset, systems_of

THEME = {
    drawing.INK: "var(--ink)",
    drawing.SOFT: "var(--soft)",
    drawing.LINE: "var(--line)",
    drawing.SHEET: "var(--card)",
}
COMPARISON = "Side by side"
WIDEST_HALF = 510.0
"""A figure of at most this many points shares its row with another."""

PROTOCOL_NOTES = {
    "paper": "each test fact is ranked among the entities known at its own snapshot",
    "current": "each test fact is ranked among all entities that the model has met by then",
}


def write_report(results: Sequence[Results], folder: Path) -> Path:
    """Write `figures/`, `summary.md` and `index.html` into `folder`; the page's path."""
    drawings = draw(_some(results))
    try:
        write_drawings(drawings, folder / "figures")
        write_text_atomically(folder / "summary.md", tables.markdown(results))
        write_text_atomically(folder / "index.html", page(results, drawings))
    except OSError as error:
        raise RunError(f"{folder}: the report cannot be written: {error.strerror}") from error
    return folder / "index.html"


def write_page(results: Sequence[Results], path: Path) -> None:
    """Write the page alone."""
    write_text_atomically(path, page(results, draw(_some(results))))


def page(results: Sequence[Results], drawings: Sequence[Drawing]) -> str:
    """The page as text."""
    groups = by_dataset(systems_of(results))
    only = next(iter(groups)) if len(groups) == 1 else None
    owned: dict[str | None, list[Drawing]] = {}
    for one in drawings:
        owned.setdefault(one.dataset or only, []).append(one)
    sections = [
        dataset_section(f"dataset-{position}", dataset, group, _gallery(owned.get(dataset, [])))
        for position, (dataset, group) in enumerate(groups.items(), 1)
    ]
    if None in owned:
        heading = tag("h2", COMPARISON)
        sections.insert(0, tag("section", heading, _gallery(owned[None]), id="comparison"))
    title = "Lifelong embedding: " + ", ".join(groups)
    return _document(title, _header(title, groups), sections)


def _some(results: Sequence[Results]) -> Sequence[Results]:
    if not results:
        raise RunError("there are no results to report; name at least one run folder")
    return results


def _document(title: str, header: Html, sections: Sequence[Html]) -> str:
    script = Html(_resource("page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy + "img-src data:"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(_resource("page.css"))),
    )
    body = tag("body", header, tag("main", *sections), _footer(), tag("script", script))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _resource(name: str) -> str:
    return resources.files("lkge.reports").joinpath(name).read_text(encoding="utf-8")


def _header(title: str, groups: dict[str, list[System]]) -> Html:
    runs = sum(len(system.runs) for group in groups.values() for system in group)
    names = {system.name for group in groups.values() for system in group}
    counts = ((runs, "run"), (len(names), "system"), (len(groups), "dataset"))
    lead = " · ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    links = [
        tag("a", COMPARISON, href="#comparison"),
        *(tag("a", name, href=f"#dataset-{position}") for position, name in enumerate(groups, 1)),
    ]
    notes = [
        tag("p", tag("strong", f"{protocol}: "), f"{note}.", class_="note")
        for protocol, note in PROTOCOL_NOTES.items()
    ]
    navigation = tag("nav", *links, aria_label="Sections") if len(groups) > 1 else Html()
    return tag("header", tag("h1", title), tag("p", lead, class_="lead"), *notes, navigation)


def _footer() -> Html:
    return tag(
        "footer",
        tag(
            "p",
            "MRR and Hits are of the last model on all test sets together. FWT: MRR on a snapshot "
            "before training on it. BWT: change of MRR on earlier snapshots since they were "
            "learned. Time is for training with validation. Carried is the most that a method "
            "keeps from one snapshot to the next. The best is bold; a method that keeps every "
            "fact is a reference and does not compete.",
        ),
    )


def _gallery(drawings: Sequence[Drawing]) -> Html:
    """Figures in pairs where they are narrow enough, else one in a row."""
    widths = {one.stem: float(_view_box(one.rendered.svg.decode())[0]) for one in drawings}
    halves = [stem for stem, width in widths.items() if width <= WIDEST_HALF]
    paired = halves[: len(halves) // 2 * 2]
    return tag("div", *(_figure(one, one.stem not in paired) for one in drawings), class_="figures")


def _figure(one: Drawing, is_wide: bool) -> Html:
    graphic = inline_svg(one.rendered.svg.decode(), one.stem, one.caption)
    caption = tag("figcaption", one.caption)
    return tag("figure", scroll(graphic, "Figure"), caption, class_="wide" if is_wide else None)


def inline_svg(svg: str, prefix: str, label: str) -> Html:
    """An SVG file as an element of the page: its ids its own, its inks the page's.

    It shrinks down to six tenths of its drawn width, then scrolls.
    """
    body = svg[svg.index("<svg") :].split(">", 1)[1]
    body = re.sub(r"<!--.*?-->|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r"\s+", " ", re.sub(r"(\b[1-9]\d*\.\d\d)\d+", r"\1", body))
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", body)
    for ink, variable in THEME.items():
        body = body.replace(ink, variable)
    width, height = _view_box(svg)
    style = f"max-width:{width}pt;min-width:{0.6 * float(width):.0f}pt"
    start = f'<svg viewBox="0 0 {width} {height}" role="img" style="{style}">'
    return join([Html(start), tag("title", label), Html(body)])


def _view_box(svg: str) -> tuple[str, str]:
    """Width and height in points."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0]
    return width, height
