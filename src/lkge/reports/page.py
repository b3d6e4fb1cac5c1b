"""The report: figures, `summary.md`, and one self-contained HTML page."""

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lkge.configure import flat_config
from lkge.data.files import write_text_atomically
from lkge.errors import RunError
from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports import plot_parts, plot_style, table_files, tables, text
from lkge.reports.figures import draw
from lkge.reports.grids import Grid
from lkge.reports.plot_style import RenderedFigure
from lkge.reports.relations import relation_grid
from lkge.reports.seeds import difference_grids, interval_grids
from lkge.reports.systems import COSTS, MEASURES, Measure, System, best_text, by_dataset, systems_of

TEMPLATES = Path(__file__).parent / "templates"
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
THEME = {
    plot_style.INK: "var(--ink)",
    plot_style.SOFT: "var(--soft)",
    plot_style.LINE: "var(--line)",
    plot_style.SHEET: "var(--card)",
}
WIDEST_HALF = 510.0
"""A figure of at most this many points shares its row with another."""

PROTOCOL_NOTES = {
    "paper": "each test fact is ranked among the entities of its own snapshot",
    "current": "each test fact is ranked among the entities of all snapshots so far",
}


def write_report(results: Sequence[Results], folder: Path) -> Path:
    """Write `figures/`, `tables/`, `summary.md` and `index.html` into `folder`; the path of the
    page."""
    if not results:
        raise RunError("there are no results to report; name at least one run folder")
    figures = draw(results)
    try:
        for figure in figures:
            figure.write(folder / "figures")
        table_files.write(results, tables.report_grids(results), folder / "tables")
        write_text_atomically(folder / "summary.md", tables.markdown(results))
        write_text_atomically(folder / "index.html", page(results, figures))
    except OSError as error:
        raise RunError(f"{folder}: the report cannot be written: {error.strerror}") from error
    return folder / "index.html"


def write_page(results: Sequence[Results], path: Path, reference: str | None = None) -> None:
    """Write the page alone."""
    write_text_atomically(path, page(results, draw(results), reference))


def page(
    results: Sequence[Results], figures: Sequence[RenderedFigure], reference: str | None = None
) -> str:
    """The text of the page. `reference`: the system that the others are compared with."""
    groups = by_dataset(systems_of(results))
    only = next(iter(groups)) if len(groups) == 1 else None
    of_dataset: dict[str | None, list[RenderedFigure]] = {}
    for figure in figures:
        of_dataset.setdefault(figure.dataset or only, []).append(figure)
    script = (TEMPLATES / "page.js").read_text("utf-8")
    names = {system.name for group in groups.values() for system in group}
    counts = ((len(results), "run"), (len(names), "system"), (len(groups), "dataset"))
    return ENVIRONMENT.get_template("page.html").render(
        title="Lifelong embedding: " + ", ".join(groups),
        lead=" · ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts),
        protocols=PROTOCOL_NOTES,
        code=tables.code_note(results),
        comparison=_gallery(of_dataset.get(None, [])),
        sections=[
            _section(f"dataset-{position}", dataset, group, of_dataset.get(dataset, []), reference)
            for position, (dataset, group) in enumerate(groups.items(), start=1)
        ],
        style=Markup((TEMPLATES / "page.css").read_text("utf-8")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _section(
    anchor: str,
    dataset: str,
    systems: Sequence[System],
    figures: Sequence[RenderedFigure],
    reference: str | None,
) -> dict[str, Any]:
    """The best values, the table of all systems, the figures, and a panel for each system."""
    anchors = [f"{anchor}-system-{position}" for position in range(1, len(systems) + 1)]
    return {
        "anchor": anchor,
        "dataset": dataset,
        "cards": _cards(systems),
        "summary": _summary(systems, anchors),
        "tables": [*interval_grids(systems), *difference_grids(systems, reference)],
        "figures": _gallery(figures),
        "panels": list(map(_panel, systems, anchors)),
    }


def _cards(systems: Sequence[System]) -> list[dict[str, Any]]:
    """The best value of each measure among the systems that compete, and which system has it."""
    competing = [system for system in systems if system.competes] or systems
    paper, current = (MEASURES[protocol] for protocol in PROTOCOLS)
    chosen = {
        "MRR, paper": paper[0],
        "MRR, current": current[0],
        "Forward transfer": paper[4],
        "Backward transfer": paper[5],
        **{measure.title: measure for measure in COSTS},
    }
    return [_card(title, measure, competing) for title, measure in chosen.items()]


def _card(title: str, measure: Measure, systems: Sequence[System]) -> dict[str, Any]:
    means = [(system.spread(measure).mean, system) for system in systems]
    known = [pair for pair in means if not math.isnan(pair[0])]
    sign, end = (1, "least") if measure.lower_is_better else (-1, "best")
    mean, system = min(known or means, key=lambda pair: sign * pair[0])
    holders = [one.name for value, one in known if measure.text(value) == measure.text(mean)]
    more = f" and {len(holders) - 1} more" if len(holders) > 1 else ""
    lines = [measure.deviation(system.spread(measure)).strip()]
    if len(systems) > 1 and holders:
        lines.append(f"{end}: {holders[0]}{more}")
    return {"title": title, "value": measure.text(mean), "lines": list(filter(None, lines))}


def _summary(systems: Sequence[System], anchors: Sequence[str]) -> dict[str, Any]:
    """The table of all systems: a block of columns for each protocol, and one for the costs."""
    blocks = {f"{protocol} protocol": MEASURES[protocol] for protocol in PROTOCOLS}
    blocks["cost"] = COSTS
    best = {m: best_text(systems, m) for measures in blocks.values() for m in measures}
    rows = [
        [[tables.measure_cell(system, m, best[m]) for m in block] for block in blocks.values()]
        for system in systems
    ]
    return {
        "blocks": blocks,
        "rows": list(zip(systems, anchors, rows, strict=True)),
        "mixes_codes": tables.mixes_codes(systems),
    }


def _panel(system: System, anchor: str) -> dict[str, Any]:
    """A system in full: matrices, snapshots of each run, settings, provenance."""
    config = flat_config(system.runs[0].config)
    seeds = ", ".join(map(str, system.seeds))
    if len(system.runs) > 1:
        config["training.seed"] = seeds
    return {
        "anchor": anchor,
        "name": system.name,
        "seeds": seeds,
        "matrices": _matrices(system),
        "relations": relation_grid(system),
        "snapshots": [_snapshots(run, len(system.runs) > 1) for run in system.runs],
        "settings": [(str(name), text.printable(str(value))) for name, value in config.items()],
        "provenance": _provenance(system),
    }


def _matrices(system: System) -> list[tuple[str, Grid, list[list[Any]]]]:
    """Both matrices with one colour scale: protocol, table, and rows of (cell, warmth in %)."""
    matrices = {protocol: system.matrix(protocol) for protocol in PROTOCOLS}
    values = (value for matrix in matrices.values() for row in matrix for value in row)
    low, high = plot_parts.value_range(values)

    def warmth(value: float) -> str:
        return "" if math.isnan(value) else f"{8 + 72 * (value - low) / (high - low):.0f}"

    found = []
    for protocol, matrix in matrices.items():
        grid = tables.matrix_grid(system, protocol)
        warm = [["", *map(warmth, row)] for row in matrix]
        pairs = zip(grid.sections[0], warm, strict=True)
        rows = [list(zip_longest(cells, degrees, fillvalue="")) for cells, degrees in pairs]
        found.append((protocol, grid, rows))
    return found


def _snapshots(run: Results, with_seed: bool) -> tuple[str, Grid, list[str]]:
    """Heading, table and notes of the snapshots of a run."""
    grid = tables.snapshot_grid(run)
    seed = f", seed {text.ABSENT if run.seed is None else run.seed}" if with_seed else ""
    noted = [record for record in run.snapshots if record.note]
    return grid.title + seed, grid, [f"Snapshot {r.index + 1}: {r.note}." for r in noted]


def _provenance(system: System) -> list[tuple[str, str]]:
    """Name and value of each part of the provenance; the values of all runs if they differ."""
    shown = ("python", "torch", "numba", "threads", "cpu", "platform")
    records = [run.provenance for run in system.runs if run.provenance]
    values = {name: [each[name] for each in records if name in each] for name in shown if records}
    values["data digest"] = [run.data_digest[:16] for run in system.runs]
    parts = {name: ", ".join(map(str, dict.fromkeys(each))) for name, each in values.items()}
    return [(name, text.printable(part)) for name, part in {"code": system.code, **parts}.items()]


def _gallery(figures: Sequence[RenderedFigure]) -> list[dict[str, Any]]:
    """Figures in pairs if they are narrow enough, else one in a row."""
    halves = [figure.stem for figure in figures if figure.size[0] <= WIDEST_HALF]
    paired = halves[: len(halves) // 2 * 2]
    return [
        {"svg": _inline(each), "caption": each.caption, "is_wide": each.stem not in paired}
        for each in figures
    ]


def _inline(figure: RenderedFigure) -> Markup:
    """The SVG as an element of the page: unique ids, and the colours of the page's theme.

    It shrinks to at most 60 % of its drawn width, then it scrolls.
    """
    svg = figure.svg.decode()
    body = svg[svg.index("<svg") :].split(">", 1)[1]
    body = re.sub(r"<!--.*?-->|<style.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r"\s+", " ", re.sub(r"(\b[1-9]\d*\.\d\d)\d+", r"\1", body))
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{figure.stem}-", body)
    for colour, variable in THEME.items():
        body = body.replace(colour, variable)
    width, height = figure.size
    style = f"max-width:{width:g}pt;min-width:{0.6 * width:.0f}pt"
    start = '<svg viewBox="0 0 {:g} {:g}" role="img" style="{}"><title>{}</title>'
    return Markup(start).format(width, height, style, figure.caption) + Markup(body)
