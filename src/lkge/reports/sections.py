"""The part of the page that is about one dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lkge.configure import flat_config
from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports import marks, tables, text
from lkge.reports.html import Html, tag
from lkge.reports.systems import COSTS, MEASURES, STATE, TIME, Measure, System, best_text


def dataset_section(anchor: str, dataset: str, systems: Sequence[System], figures: Html) -> Html:
    """The best in cards, all systems in a table, the figures, and each system in a panel."""
    panels = [f"{anchor}-system-{position}" for position in range(1, len(systems) + 1)]
    alone = len(systems) == 1
    return tag(
        "section",
        tag("h2", dataset),
        _cards(systems),
        _summary(systems, panels),
        figures,
        tag("h3", "Run in detail" if alone else "Systems in detail"),
        *(
            _details(system, panel, is_open=alone)
            for system, panel in zip(systems, panels, strict=True)
        ),
        id=anchor,
    )


def _cards(systems: Sequence[System]) -> Html:
    """The best of each measure among those that compete, and whose it is when there is a choice."""
    rivals = [system for system in systems if system.competes] or systems
    paper, current = (MEASURES[protocol] for protocol in PROTOCOLS)
    chosen = (
        ("MRR, paper", paper[0]),
        ("MRR, current", current[0]),
        ("Forward transfer", paper[4]),
        ("Backward transfer", paper[5]),
        ("Time", TIME),
        ("Carried", STATE),
    )
    return tag("dl", *(_card(title, measure, rivals) for title, measure in chosen), class_="cards")


def _card(title: str, measure: Measure, systems: Sequence[System]) -> Html:
    means = [(system.spread(measure).mean, system) for system in systems]
    known = [pair for pair in means if not math.isnan(pair[0])]
    sign, end = (1, "least") if measure.lower_is_better else (-1, "best")
    mean, system = min(known or means, key=lambda pair: sign * pair[0])
    holders = [name for value, name in known if measure.text(value) == measure.text(mean)]
    deviation = tables.deviation_text(system.spread(measure), measure).strip()
    who = [
        *([deviation] if deviation else []),
        *([f"{end}: {_holders(holders)}"] if len(systems) > 1 and holders else []),
    ]
    return tag(
        "div",
        tag("dt", title),
        tag("dd", measure.text(mean), class_="value"),
        *(tag("dd", line, class_="who") for line in who),
        class_="card",
    )


def _holders(systems: Sequence[System]) -> str:
    first = systems[0].name
    return first if len(systems) == 1 else f"{first} and {len(systems) - 1} more"


def _summary(systems: Sequence[System], panels: Sequence[str]) -> Html:
    blocks = [*(MEASURES[protocol] for protocol in PROTOCOLS), COSTS]
    heads = [*(f"{protocol} protocol" for protocol in PROTOCOLS), "cost"]
    groups = [
        tag("th", words, colspan=str(len(block)), scope="colgroup", class_="group")
        for words, block in zip(heads, blocks, strict=True)
    ]
    titles = [
        tag("th", measure.title, scope="col", class_="edge" if measure is block[0] else None)
        for block in blocks
        for measure in block
    ]
    name = tag("th", "Method", rowspan="2", scope="col", class_="name")
    champions = [[best_text(systems, measure) for measure in block] for block in blocks]
    rows = [
        tag(
            "tr",
            tag("td", tag("a", system.name, href=f"#{panel}"), class_="name"),
            *(
                _summary_cell(system, measure, champion, edge=measure is block[0])
                for block, best in zip(blocks, champions, strict=True)
                for measure, champion in zip(block, best, strict=True)
            ),
            data_panel=panel,
        )
        for system, panel in zip(systems, panels, strict=True)
    ]
    head = tag("thead", tag("tr", name, *groups), tag("tr", *titles))
    return scroll(tag("table", head, tag("tbody", *rows), class_="summary"), "Summary")


def _summary_cell(system: System, measure: Measure, champion: str | None, edge: bool) -> Html:
    spread = system.spread(measure)
    mean = measure.text(spread.mean)
    deviation = tables.deviation_text(spread, measure).strip()
    return tag(
        "td",
        tag("strong", mean, class_="best") if system.is_best(measure, champion) else mean,
        *([tag("small", deviation)] if deviation else []),
        class_="edge" if edge else None,
    )


def _details(system: System, anchor: str, is_open: bool) -> Html:
    seeds = ", ".join(map(str, system.seeds))
    note = tag("span", f"seed {seeds}", class_="note") if seeds else Html()
    return tag(
        "details",
        tag("summary", system.name, note),
        tag(
            "div",
            tag("h3", "MRR of each model (row) on each test set (column)"),
            tag("div", *_matrices(system), class_="pair"),
            tag("p", tables.matrix_grid(system, PROTOCOLS[0]).note, class_="note"),
            *(part for run in system.runs for part in _snapshots(run, len(system.runs) > 1)),
            tag("h3", "Settings"),
            _config(system),
            class_="panel",
        ),
        id=anchor,
        open=is_open,
    )


def _matrices(system: System) -> list[Html]:
    """Both matrices on one scale of warmth."""
    matrices = {protocol: system.matrix(protocol) for protocol in PROTOCOLS}
    low, high = marks.value_range(v for matrix in matrices.values() for row in matrix for v in row)
    return [
        tag("div", tag("h4", f"{protocol} protocol"), _heat(system, protocol, matrix, low, high))
        for protocol, matrix in matrices.items()
    ]


def _heat(
    system: System, protocol: str, matrix: Sequence[Sequence[float]], low: float, high: float
) -> Html:
    grid = tables.matrix_grid(system, protocol)

    def cell(i: int, j: int, content: tables.Cell) -> Html:
        known = j < len(matrix[i]) and not math.isnan(matrix[i][j])
        warmth = f"--warmth:{8 + 72 * (matrix[i][j] - low) / (high - low):.0f}%" if known else None
        return tag("td", content.text, style=warmth, class_="faint" if content.faint else None)

    rows = [
        tag(
            "tr",
            tag("th", row[0].text, scope="row"),
            *(cell(i, j, content) for j, content in enumerate(row[1:])),
        )
        for i, row in enumerate(grid.sections[0])
    ]
    head = tag("thead", tag("tr", *(tag("th", words, scope="col") for words in grid.columns)))
    return scroll(tag("table", head, tag("tbody", *rows), class_="heat"), grid.title)


def _snapshots(run: Results, with_seed: bool) -> list[Html]:
    grid = tables.snapshot_grid(run)
    seed = text.ABSENT if run.seed is None else run.seed
    heading = f"{grid.title}, seed {seed}" if with_seed else grid.title
    head = tag("thead", tag("tr", *(tag("th", words, scope="col") for words in grid.columns)))
    rows = [tag("tr", *(tag("td", cell.text) for cell in row)) for row in grid.sections[0]]
    table = scroll(tag("table", head, tag("tbody", *rows)), heading)
    notes = [
        tag("p", f"Snapshot {record.index + 1}: {record.note}.", class_="note")
        for record in run.snapshots
        if record.note
    ]
    return [tag("h3", heading), table, *notes]


def _config(system: System) -> Html:
    config = flat_config(system.runs[0].config)
    if len(system.runs) > 1:
        config["training.seed"] = ", ".join(map(str, system.seeds))
    return tag(
        "dl",
        *(
            tag("div", tag("dt", str(name)), tag("dd", text.printable(str(value))))
            for name, value in config.items()
        ),
        class_="settings",
    )


def scroll(content: Html, label: str) -> Html:
    """A box in which wide content scrolls, with a name and within reach of the keyboard."""
    return tag("div", content, class_="scroll", role="region", aria_label=label, tabindex="0")
