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
    figures = [
        (one.dataset, _figure(one, f"figure-{position}"))
        for position, one in enumerate(drawings, 1)
    ]
    title = "Lifelong embedding: " + ", ".join(groups)
    sections = [
        dataset_section(
            f"dataset-{position}",
            dataset,
            group,
            [figure for owner, figure in figures if owner == dataset],
        )
        for position, (dataset, group) in enumerate(groups.items(), 1)
    ]
    comparison = [figure for owner, figure in figures if owner is None]
    if comparison:
        heading = tag("h2", "Side by side")
        sections.append(tag("section", heading, *comparison, id="comparison"))
    return _document(title, _header(title, groups, bool(comparison)), sections)


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


def _header(title: str, groups: dict[str, list[System]], compared: bool) -> Html:
    runs = sum(len(system.runs) for group in groups.values() for system in group)
    names = {system.name for group in groups.values() for system in group}
    counts = ((runs, "run"), (len(names), "system"), (len(groups), "dataset"))
    lead = " · ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    links = [
        tag("a", dataset, href=f"#dataset-{position}") for position, dataset in enumerate(groups, 1)
    ]
    if compared:
        links.append(tag("a", "Side by side", href="#comparison"))
    notes = [
        tag("p", tag("strong", f"{protocol}: "), f"{note}.", class_="note")
        for protocol, note in PROTOCOL_NOTES.items()
    ]
    navigation = tag("nav", *links, aria_label="Sections") if len(links) > 1 else Html()
    return tag("header", tag("h1", title), tag("p", lead, class_="lead"), *notes, navigation)


def _footer() -> Html:
    return tag(
        "footer",
        tag(
            "p",
            "MRR and Hits are of the last model on all test sets together. FWT: MRR on a snapshot "
            "before training on it. BWT: change of MRR on earlier snapshots since they were "
            "learned. Time is for training with validation. Carried is the most that a method "
            "keeps from one snapshot to the next.",
        ),
    )


def _figure(one: Drawing, prefix: str) -> Html:
    graphic = inline_svg(one.rendered.svg.decode(), prefix, one.caption)
    return tag("figure", scroll(graphic, "Figure"), tag("figcaption", one.caption))


def inline_svg(svg: str, prefix: str, label: str) -> Html:
    """An SVG file as an element of the page: its ids its own, its inks the page's.

    It shrinks down to six tenths of its drawn width, then scrolls.
    """
    opening, body = svg[svg.index("<svg") :].split(">", 1)
    body = re.sub(r"<!--.*?-->|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", body)
    for ink, variable in THEME.items():
        body = body.replace(ink, variable)
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening)[0]
    drawn = float(width) * 4 / 3
    style = f"max-width:{drawn:.0f}px;min-width:{0.6 * drawn:.0f}px"
    start = f'<svg viewBox="0 0 {width} {height}" role="img" style="{style}">'
    return join([Html(start), tag("title", label), Html(body)])
