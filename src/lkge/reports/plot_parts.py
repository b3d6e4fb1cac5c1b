"""Parts of the figures: lines, bars, cells and labels on a panel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from lkge.reports import plot_style, text
from lkge.reports.systems import Measure, System, best_text, by_dataset, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABELLED = 10
"""With more snapshots, not every model and cell has a label."""

DASHES: tuple[Any, ...] = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
MARKERS = ("o", "s", "^")
LEADER = {"arrowstyle": "-", "lw": 0.8, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 3}


@dataclass(frozen=True)
class Series:
    """One bar of each method: its name, colour and measure."""

    name: str
    colour: str
    measure: Measure


def system_panels(systems: Sequence[System]) -> tuple[Figure, list[Axes]]:
    """A panel for each system with its title; a single panel is larger and has no title."""
    if len(systems) == 1:
        return plot_style.panels(1, columns=1, size=(5.6, 3.4))
    columns = 3 if len(systems) in (5, 6, 9) else 4
    figure, axes = plot_style.panels(len(systems), columns=columns, size=(2.7, 2.3))
    datasets = {system.dataset for system in systems}
    names = {system.name for system in systems}
    for panel, system in zip(axes, systems, strict=True):
        parts = [system.dataset] * (len(datasets) > 1) + [system.name] * (len(names) > 1)
        panel.set_title(plot_style.label(": ".join(parts)))
    return figure, axes


def title(words: str, systems: Sequence[System]) -> str:
    """The words, and the dataset and the system if all panels share them."""
    kinds = ({system.dataset for system in systems}, {system.name for system in systems})
    names = [name for kind in kinds if len(kind) == 1 for name in kind]
    return f"{words}: {', '.join(map(plot_style.label, names))}" if names else words


def shades(count: int) -> list[tuple[float, float, float, float]]:
    """`count` colours from cool (early) to warm (late)."""
    from matplotlib.colors import LinearSegmentedColormap

    blue, vermilion, green, _, orange, sky = plot_style.OKABE_ITO
    stops = (blue, sky, green, orange, vermilion)
    colours = LinearSegmentedColormap.from_list("early to late", stops)
    return [colours(i / max(count - 1, 1)) for i in range(count)]


def snapshot_axis(panel: Axes, count: int) -> None:
    """Snapshot numbers on the x axis, a light grid for the y axis."""
    step = 1 if count <= MAX_LABELLED else -(-count // MAX_LABELLED)
    panel.set_xticks(range(1, count + 1, step))
    panel.set_xlim(0.5, max(count, 1) + 0.5)
    panel.grid(axis="y")
    panel.tick_params(length=0)


def model_lines(panel: Axes, matrix: Sequence[Sequence[float]]) -> None:
    """MRR of each model on its test sets; the label is at the newest test set."""
    from matplotlib.patheffects import withStroke

    last = len(matrix) - 1
    for i, (row, colour) in enumerate(zip(matrix, shades(len(matrix)), strict=True)):
        panel.plot(range(1, len(row) + 1), row, "o-", color=colour)
        if row and (last < MAX_LABELLED or i in (0, last)):
            panel.annotate(
                text.model(i),
                (len(row), row[-1]),
                xytext=(3, 4),
                textcoords="offset points",
                fontweight="bold",
                annotation_clip=False,
                path_effects=[withStroke(linewidth=2.5, foreground=plot_style.SHEET)],
            )


def heat(
    panel: Axes, matrix: Sequence[Sequence[float]], low: float, high: float, font: float
) -> None:
    """The lower triangle as coloured cells with their values."""
    size = len(matrix)
    edges = [i - 0.5 for i in range(size + 1)]
    cells = [[*row, *[math.nan] * (size - len(row))] for row in matrix]
    if cells:
        mesh: dict[str, Any] = {"cmap": "viridis", "edgecolors": plot_style.SHEET, "linewidth": 1.2}
        panel.pcolormesh(edges, edges, cells, vmin=low, vmax=high, **mesh)
        panel.invert_yaxis()
    if size <= MAX_LABELLED:
        for i, row in enumerate(matrix):
            for j, value in enumerate(row):
                bright = math.isnan(value) or value > low + 0.45 * (high - low)
                look: dict[str, Any] = {"size": font, "color": "#101010" if bright else "#ffffff"}
                panel.text(j, i, text.number(value), ha="center", va="center", **look)
    panel.set_xticks(range(size), [text.queries(j) for j in range(size)])
    panel.set_yticks(range(size), [text.model(i) for i in range(size)])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)


def value_range(values: Iterable[float]) -> tuple[float, float]:
    """The least and the greatest value that is not nan; never equal."""
    known = [value for value in values if not math.isnan(value)] or [0.0]
    low, high = min(known), max(known)
    return (low, high) if high - low > 1e-9 else (low - 0.05, high + 0.05)


def dataset_panels(
    groups: Mapping[str, list[System]], size: tuple[float, float], *, columns: int, sharey: bool
) -> tuple[Figure, list[tuple[Axes, list[System]]]]:
    """A panel for each dataset with its title, and the systems on it."""
    figure, axes = plot_style.panels(len(groups), columns=columns, size=size, sharey=sharey)
    for panel, dataset in zip(axes, groups, strict=True):
        panel.set_title(plot_style.label(dataset))
    return figure, list(zip(axes, groups.values(), strict=True))


def paired_bars(systems: Sequence[System], first: Series, second: Series) -> Figure:
    """Two bars for each method, the best on top by the first; a panel for each dataset."""
    names = ranking(systems, first.measure)
    labels, groups = plot_style.labels(names), by_dataset(systems)
    size = (7.0 if len(groups) == 1 else 3.0, 1.25 + 0.36 * max(len(names), 3))
    figure, panels = dataset_panels(groups, size, columns=4, sharey=True)
    for panel, group in panels:
        for series, offset in ((first, -0.19), (second, 0.19)):
            _bars(panel, group, names, series, offset)
        panel.axvline(0, color=plot_style.SOFT, linewidth=0.8)
        panel.set_yticks(range(len(names)), [labels[name] for name in names])
        panel.set_ylim(len(names) - 0.45, -0.55)
        panel.margins(x=0.12 if len(groups) == 1 else 0.34)
        panel.tick_params(length=0)
        panel.grid(axis="x")
        panel.locator_params(axis="x", nbins=5)
        panel.spines["left"].set_visible(False)
    handles = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower right", ncols=2)
    return figure


def ranking(systems: Sequence[System], measure: Measure) -> list[str]:
    """The names of the systems, best mean first, over the datasets that all systems have, else over
    all datasets of each system; unknown values last."""
    places: dict[str, dict[str, float]] = {}
    for system in systems:
        places.setdefault(system.name, {})[system.dataset] = system.spread(measure).mean
    shared = set.intersection(*map(set, places.values())) if places else set()

    def height(name: str) -> float:
        mean = spread(places[name][dataset] for dataset in shared or places[name]).mean
        return -math.inf if math.isnan(mean) else mean

    return sorted(places, key=height, reverse=True)


def _bars(
    panel: Axes, group: Sequence[System], names: Sequence[str], series: Series, offset: float
) -> None:
    best = best_text(group, series.measure)
    places = [names.index(system.name) + offset for system in group]
    spreads = [system.spread(series.measure) for system in group]
    lengths = [0.0 if math.isnan(value.mean) else value.mean for value in spreads]
    panel.barh(places, lengths, 0.36, color=series.colour, label=series.name)
    for system, place, value, reach in zip(group, places, spreads, lengths, strict=True):
        error = 0.0 if math.isnan(value.deviation) else value.deviation
        if error:
            panel.plot([reach - error, reach + error], [place] * 2, color=plot_style.INK, lw=1)
        panel.annotate(
            text.number(value.mean),
            (reach - error if reach < 0 else reach + error, place),
            xytext=(-3 if reach < 0 else 3, -0.5),
            textcoords="offset points",
            ha="right" if reach < 0 else "left",
            va="center",
            size=7.5,
            fontweight="bold" if system.is_best(series.measure, best) else "normal",
        )


def look_of(name: str, names: Sequence[str]) -> dict[str, Any]:
    """Colour, dashes and marker of a system of a figure."""
    place = names.index(name)
    turn = place // len(plot_style.OKABE_ITO) % len(DASHES)
    colour = plot_style.OKABE_ITO[place % len(plot_style.OKABE_ITO)]
    return {"color": colour, "ls": DASHES[turn], "marker": MARKERS[turn]}


def _times(group: Sequence[System]) -> tuple[list[list[float]], float, str]:
    """Cumulative time of each system at each snapshot, the most of them, and their unit."""
    lines = [list(accumulate(s.per_snapshot(lambda record: record.seconds))) for s in group]
    most = max((line[-1] for line in lines if line), default=0.0) or 1.0
    unit, unit_name = plot_style.time_unit(most)
    return [[time / unit for time in line] for line in lines], most / unit, unit_name.capitalize()


def gain_lines(panel: Axes, group: Sequence[System], names: Sequence[str], protocol: str) -> None:
    """MRR on the test sets so far over cumulative time; points have their snapshot number."""
    times, _, unit = _times(group)
    labels = plot_style.labels(names)
    at: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
    for system, line in zip(group, times, strict=True):
        points = list(zip(line, system.so_far(protocol), strict=False))
        look = look_of(system.name, names)
        panel.plot(*zip(*points, strict=True), label=labels[system.name], **look)
        for number, point in enumerate(points, start=1):
            panel.annotate(str(number), point, size=7, **at)
    panel.margins(y=0.15)
    panel.set_xlim(left=0)
    panel.set_xlabel(unit)


def time_lines(panel: Axes, group: Sequence[System], names: Sequence[str], gap: float) -> None:
    """Cumulative time over snapshots; each line has its label at its end. `gap`: least distance of
    labels as a fraction of the height."""
    lines, most, unit = _times(group)
    drawn = [(system, line) for system, line in zip(group, lines, strict=True) if line]
    top = 1.06 * most
    places = plot_style.spread_out([line[-1] for _, line in drawn], gap * top, top)
    length = max((len(line) for _, line in drawn), default=1)
    snapshot_axis(panel, length)
    labels = plot_style.labels(names)
    for (system, line), place in zip(drawn, places, strict=True):
        look = look_of(system.name, names)
        panel.plot(range(1, len(line) + 1), line, **look)
        panel.annotate(
            labels[system.name],
            (len(line), line[-1]),
            xytext=(length + 0.45, place),
            va="center",
            size=8,
            annotation_clip=False,
            arrowprops=LEADER | {"color": look["color"]},
        )
    panel.set_ylim(0, top)
    panel.set_xlim(0.8, length + 0.2)
    panel.set_ylabel(unit)
