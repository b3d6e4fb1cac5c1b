"""The figures of one run, and of several systems for comparison."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports import plot_parts, plot_style
from lkge.reports.plot_style import RenderedFigure, heading, style
from lkge.reports.systems import MEASURES, System, by_dataset, systems_of


@style()
def mrr_over_snapshots(results: Sequence[Results], protocol: str = "paper") -> Figure:
    """A line for each model M_i: its MRR on Q_1 … Q_i; a panel for each system."""
    systems = systems_of(results)
    figure, axes = plot_parts.system_panels(systems)
    for panel, system in zip(axes, systems, strict=True):
        matrix = system.matrix(protocol)
        plot_parts.model_lines(panel, matrix)
        plot_parts.snapshot_axis(panel, len(matrix))
        panel.margins(y=0.18)
    words = plot_parts.title("MRR of each model on the test sets so far", systems)
    heading(figure, words, "Test set of snapshot", f"MRR, {protocol} protocol")
    return figure


@style()
def matrix_heatmap(results: Sequence[Results]) -> Figure:
    """h[i, j] for j ≤ i: two panels for each system, one for each protocol."""
    systems = systems_of(results)
    alone = len(systems) == 1
    columns = 2 if alone else 4 if len(systems) <= 4 else 6
    size = (4.0, 3.2) if alone else (2.4, 2.0)
    figure, axes = plot_style.panels(2 * len(systems), columns=columns, size=size, sharey=False)
    for system, *pair in zip(systems, axes[::2], axes[1::2], strict=True):
        matrices = [system.matrix(protocol) for protocol in PROTOCOLS]
        low, high = plot_parts.value_range(value for m in matrices for row in m for value in row)
        names = ["", ""] if alone else [f"{plot_style.label(system.name, 20)}, ", ""]
        for panel, matrix, name, protocol in zip(pair, matrices, names, PROTOCOLS, strict=True):
            plot_parts.heat(panel, matrix, low, high, font=9 if alone else 7)
            panel.set_title(f"{name}{protocol}", size="medium")
    heading(figure, plot_parts.title("MRR of model (row) on test set (column)", systems))
    return figure


@style()
def mrr_by_age(results: Sequence[Results]) -> Figure:
    """MRR of the last model on the facts of each snapshot: a line for each system, a panel for each
    protocol."""
    systems = systems_of(results)
    figure, axes = plot_style.panels(2, columns=2, size=(3.4, 3.0))
    look_of = plot_parts.looks(_names(systems))
    for panel, protocol in zip(axes, PROTOCOLS, strict=True):
        panel.set_title(f"{protocol} protocol", size="medium")
        lines = [system.by_age(protocol) for system in systems]
        plot_parts.snapshot_axis(panel, max(map(len, lines)))
        for system, line in zip(systems, lines, strict=True):
            panel.plot(range(1, len(line) + 1), line, **look_of[system.name])
        panel.margins(y=0.15)
    words = plot_parts.title("MRR of the last model by age of the facts", systems)
    heading(figure, words, "Snapshot in which a test fact is new", "MRR")
    if len(systems) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower right", ncols=3)
    return figure


@style()
def time_per_snapshot(results: Sequence[Results]) -> Figure:
    """Training and validation time of each snapshot, stacked; a panel for each system."""
    systems = systems_of(results)
    figure, axes = plot_parts.system_panels(systems)
    whole = [system.per_snapshot(lambda record: record.seconds) for system in systems]
    unit, unit_name = plot_style.time_unit(max(max(times, default=0.0) for times in whole))
    for panel, system, times in zip(axes, systems, whole, strict=True):
        checking = [t / unit for t in system.per_snapshot(lambda r: r.validation_seconds)]
        training = [t / unit - c for t, c in zip(times, checking, strict=True)]
        snapshots = range(1, len(times) + 1)
        panel.bar(snapshots, training, 0.7, color=plot_style.BLUE, label="Training")
        look: dict[str, Any] = {"color": plot_style.ORANGE, "label": "Validation"}
        panel.bar(snapshots, checking, 0.7, training, **look)
        plot_parts.snapshot_axis(panel, len(times))
    heading(figure, plot_parts.title("Time to learn each snapshot", systems), "Snapshot", unit_name)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower right", ncols=2)
    return figure


@style()
def mrr_by_method(results: Sequence[Results]) -> Figure:
    """MRR of the last model on all tests, both protocols; a panel for each dataset."""
    colours = (plot_style.BLUE, plot_style.SKY)
    bars = {
        f"{protocol} protocol": (colour, MEASURES[protocol][0])
        for protocol, colour in zip(PROTOCOLS, colours, strict=True)
    }
    figure = plot_parts.paired_bars(systems_of(results), bars)
    heading(figure, "MRR of the last model on all test sets")
    return figure


@style()
def transfer_by_method(results: Sequence[Results], protocol: str = "paper") -> Figure:
    """Forward and backward transfer of MRR; a panel for each dataset."""
    fwt, bwt = MEASURES[protocol][4:6]
    bars = {
        "forward (FWT)": (plot_style.GREEN, fwt),
        "backward (BWT)": (plot_style.VERMILION, bwt),
    }
    figure = plot_parts.paired_bars(systems_of(results), bars)
    heading(figure, f"Transfer of MRR, {protocol} protocol")
    return figure


@style()
def cumulative_time(results: Sequence[Results]) -> Figure:
    """Learning time up to each snapshot, a line for each method, a panel for each dataset."""
    systems = systems_of(results)
    groups = by_dataset(systems)
    height = max(3.2, 1.2 + 0.15 * max(map(len, groups.values())))
    width = 6.4 if len(groups) == 1 else 4.8
    figure, panels = plot_parts.dataset_panels(groups, (width, height), columns=2, sharey=False)
    for panel, group in panels:
        plot_parts.time_lines(panel, group, _names(systems), gap=10 / (72 * (height - 0.9)))
    heading(figure, "Cumulative time to learn", "Snapshot")
    return figure


@style()
def mrr_over_time(results: Sequence[Results], protocol: str = "current") -> Figure:
    """MRR on the tests so far against the time it took, a point for each snapshot and a line for
    each method; a panel for each dataset."""
    systems = systems_of(results)
    groups = by_dataset(systems)
    figure, panels = plot_parts.dataset_panels(groups, (4.8, 3.2), columns=2, sharey=False)
    handles: dict[str, Any] = {}
    for panel, group in panels:
        plot_parts.gain_lines(panel, group, _names(systems), protocol)
        lines, labels = panel.get_legend_handles_labels()
        handles |= zip(labels, lines, strict=True)
    words = "MRR on the tests so far, over the time to learn"
    heading(figure, words, y=f"MRR, {protocol} protocol")
    figure.legend(handles.values(), handles.keys(), loc="outside lower right", ncols=4)
    return figure


def _names(systems: Sequence[System]) -> list[str]:
    return list(dict.fromkeys(system.name for system in systems))


def mrr_over_snapshots_of_best(results: Sequence[Results]) -> Figure:
    """`mrr_over_snapshots` of the best systems."""
    return mrr_over_snapshots(best_runs(results))


def mrr_by_age_of_best(results: Sequence[Results]) -> Figure:
    """`mrr_by_age` of the best systems."""
    return mrr_by_age(best_runs(results))


def best_runs(results: Sequence[Results]) -> list[Results]:
    """The runs of the systems with the highest MRR, in the order that they had."""
    systems = systems_of(results)
    best = plot_parts.ranking(systems, MEASURES[PROTOCOLS[0]][0])[:MAX_PANELS]
    return [run for system in systems if system.name in best for run in system.runs]


MAX_PANELS = 6
"""With more systems on a dataset, only the best have a panel."""

LINES = (
    "Each line is one model on the test sets of its own and all earlier snapshots. A line below "
    "the lines before it: older facts were forgotten; a line above them: older facts gained."
)

AGE = (
    "The last model on the test facts of each snapshot, the oldest left. A line that rises to the "
    "right: older facts are ranked worse than newer ones. In the paper protocol older facts have "
    "fewer candidates."
)

Plots = Mapping[str, tuple[Callable[[Sequence[Results]], Figure], str]]
"""Kind, which is the start of the file name → function and caption."""

OF_ALL: Plots = {
    "mrr-by-method": (
        mrr_by_method,
        "MRR of the last model on the union of all test sets. The best of each dataset is bold.",
    ),
    "transfer-by-method": (
        transfer_by_method,
        "FWT: MRR on a snapshot before training on it. BWT: change of MRR on earlier snapshots "
        "after training on later ones.",
    ),
    "cumulative-time": (
        cumulative_time,
        "Training time up to and including each snapshot, with validation, without tests.",
    ),
}
OF_DATASET: Plots = {
    "mrr-over-snapshots": (mrr_over_snapshots, LINES),
    "mrr-by-age": (mrr_by_age, AGE),
    "matrix": (
        matrix_heatmap,
        "MRR of each model (row) on each test set (column) under both protocols.",
    ),
    "time-per-snapshot": (
        time_per_snapshot,
        "Time to learn each snapshot: training and validation.",
    ),
}
OF_CROWDED_DATASET: Plots = {
    "mrr-over-snapshots": (
        mrr_over_snapshots_of_best,
        f"The {MAX_PANELS} systems with the highest MRR. {LINES}",
    ),
    "mrr-by-age": (mrr_by_age_of_best, f"The {MAX_PANELS} systems with the highest MRR. {AGE}"),
}


def draw(results: Sequence[Results]) -> list[RenderedFigure]:
    """All figures for the results; comparisons only if there are several systems."""
    systems = systems_of(results)
    rendered = _rendered(OF_ALL, systems) if len(systems) > 1 else []
    groups = by_dataset(systems)
    for (dataset, group), suffix in zip(groups.items(), _suffixes(list(groups)), strict=True):
        plots = OF_DATASET if len(group) <= MAX_PANELS else OF_CROWDED_DATASET
        rendered += _rendered(plots, group, dataset, suffix)
    return rendered


def _rendered(
    plots: Plots, systems: Sequence[System], dataset: str | None = None, suffix: str = ""
) -> list[RenderedFigure]:
    runs = [run for system in systems for run in system.runs]
    return [
        plot_style.render(plot(runs), kind + suffix, caption, dataset)
        for kind, (plot, caption) in plots.items()
    ]


def _suffixes(datasets: Sequence[str]) -> list[str]:
    """Suffixes of file names by dataset: empty for one dataset, else its name in plain letters."""
    if len(datasets) == 1:
        return [""]
    slugs = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] for name in datasets]
    return [
        f"-{slug}" if slug and slugs.count(slug) == 1 else f"-{slug or 'dataset'}-{position}"
        for position, slug in enumerate(slugs, start=1)
    ]
