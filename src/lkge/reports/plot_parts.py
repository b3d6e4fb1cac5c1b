"""Parts of the figures: lines, bars, cells and labels on a panel."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from lkge.reports import plot_style, text
from lkge.reports.systems import Measure, System, best_text, by_dataset, spread

MAX_LABELLED = 10
"""With more snapshots, not every model and cell has a label."""

EARLY_TO_LATE = LinearSegmentedColormap.from_list(
    "early to late",
    [getattr(plot_style, name) for name in ("BLUE", "SKY", "GREEN", "ORANGE", "VERMILION")],
)
LEADER = {"arrowstyle": "-", "lw": 0.8, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 3}

Bars = Mapping[str, tuple[str, Measure]]
"""Legend → colour and measure of the bars of all methods."""


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


def snapshot_axis(panel: Axes, count: int) -> None:
    """Snapshot numbers on the x axis, a light grid for the y axis."""
    panel.set_xticks(range(1, count + 1, -(-count // MAX_LABELLED) or 1))
    panel.set_xlim(0.5, max(count, 1) + 0.5)
    panel.grid(axis="y")
    panel.tick_params(length=0)


def model_lines(panel: Axes, matrix: Sequence[Sequence[float]]) -> None:
    """MRR of each model on its test sets; the label is at the newest test set."""
    last = len(matrix) - 1
    colours = EARLY_TO_LATE(np.linspace(0, 1, len(matrix)))
    for i, (row, colour) in enumerate(zip(matrix, colours, strict=True)):
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
    edges = np.arange(size + 1) - 0.5
    cells = [[*row, *[math.nan] * (size - len(row))] for row in matrix]
    if cells:
        look: dict[str, Any] = {"cmap": "viridis", "edgecolors": plot_style.SHEET}
        panel.pcolormesh(edges, edges, cells, vmin=low, vmax=high, linewidth=1.2, **look)
        panel.invert_yaxis()
    if size <= MAX_LABELLED:
        for i, row in enumerate(matrix):
            for j, value in enumerate(row):
                bright = math.isnan(value) or value > low + 0.45 * (high - low)
                look = {"size": font, "color": "#101010" if bright else "#ffffff"}
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


def paired_bars(systems: Sequence[System], bars: Bars) -> Figure:
    """Two bars for each method, the best on top by the first; a panel for each dataset."""
    names = ranking(systems, next(iter(bars.values()))[1])
    labels, groups = plot_style.labels(names), by_dataset(systems)
    size = (7.0 if len(groups) == 1 else 3.0, 1.25 + 0.36 * max(len(names), 3))
    figure, panels = dataset_panels(groups, size, columns=4, sharey=True)
    for panel, group in panels:
        for (legend, (colour, measure)), offset in zip(bars.items(), (-0.19, 0.19), strict=True):
            places = [names.index(system.name) + offset for system in group]
            _bars(panel, group, measure, places, color=colour, label=legend)
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


def _bars(
    panel: Axes, group: Sequence[System], measure: Measure, places: Sequence[float], **look: Any
) -> None:
    """Mean, deviation and number of each system; the best number is bold."""
    best = best_text(group, measure)
    spreads = [system.spread(measure) for system in group]
    means, errors = np.nan_to_num([(value.mean, value.deviation) for value in spreads]).T
    error_look = {"ecolor": plot_style.INK, "elinewidth": 1}
    bars = panel.barh(places, means, 0.36, xerr=errors, error_kw=error_look, **look)
    numbers = [text.number(value.mean) for value in spreads]
    labels = panel.bar_label(bars, numbers, padding=3, size=7.5)
    for system, words in zip(group, labels, strict=True):
        words.set_fontweight("bold" if system.is_best(measure, best) else "normal")


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


def looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Label, colour, dashes and marker of the line of each system of a figure."""
    labels = plot_style.labels(names)
    return {
        name: {**look, "label": labels[name]}
        for name, look in zip(names, plot_style.LINES(), strict=False)
    }


def gain_lines(panel: Axes, group: Sequence[System], names: Sequence[str], protocol: str) -> None:
    """MRR on the test sets so far over cumulative time; points have their snapshot number."""
    times, _, unit = _times(group)
    look_of = looks(names)
    at: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
    for system, line in zip(group, times, strict=True):
        points = list(zip(line, system.so_far(protocol), strict=False))
        panel.plot(*zip(*points, strict=True), **look_of[system.name])
        for number, point in enumerate(points, start=1):
            panel.annotate(str(number), point, size=7, **at)
    panel.margins(y=0.15)
    panel.set_xlim(left=0)
    panel.set_xlabel(unit)


def time_lines(panel: Axes, group: Sequence[System], names: Sequence[str], gap: float) -> None:
    """Cumulative time over snapshots; each line has its label at its end. `gap`: least distance of
    labels as a fraction of the height."""
    times, most, unit = _times(group)
    look_of = looks(names)
    lines = [
        (look_of[system.name], line) for system, line in zip(group, times, strict=True) if line
    ]
    top = 1.06 * most
    places = plot_style.spread_out([line[-1] for _, line in lines], gap * top, top)
    length = max((len(line) for _, line in lines), default=1)
    snapshot_axis(panel, length)
    for (look, line), place in zip(lines, places, strict=True):
        panel.plot(range(1, len(line) + 1), line, **look)
        panel.annotate(
            look["label"],
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


def _times(group: Sequence[System]) -> tuple[list[list[float]], float, str]:
    """Cumulative time of each system at each snapshot, the most of them, and their unit."""
    lines = [list(accumulate(s.per_snapshot(lambda record: record.seconds))) for s in group]
    most = max((line[-1] for line in lines if line), default=0.0) or 1.0
    unit, unit_name = plot_style.time_unit(most)
    return [[time / unit for time in line] for line in lines], most / unit, unit_name
