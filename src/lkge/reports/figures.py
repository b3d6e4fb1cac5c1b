"""The figures of one run, and of many side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lkge.evaluation.results import PROTOCOLS, Results
from lkge.reports import drawing, marks
from lkge.reports.drawing import Rendered, save, styled
from lkge.reports.systems import MEASURES, System, by_dataset, systems_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Drawing",
    "cumulative_time",
    "draw",
    "draw_all",
    "matrix_heatmap",
    "mrr_by_method",
    "mrr_over_snapshots",
    "mrr_over_time",
    "save",
    "time_per_snapshot",
    "transfer_by_method",
    "write_drawings",
]


@styled
def mrr_over_snapshots(results: Sequence[Results], protocol: str = "paper") -> Figure:
    """A line for each model M_i: its MRR on Q_1 … Q_i; a panel for each system."""
    systems = systems_of(results)
    figure, axes = marks.system_panels(systems)
    for panel, system in zip(axes, systems, strict=True):
        matrix = system.matrix(protocol)
        marks.model_lines(panel, matrix)
        marks.snapshot_axis(panel, len(matrix))
        panel.margins(y=0.18)
    drawing.heading(figure, marks.title("MRR of each model on the test sets so far", systems))
    figure.supxlabel("Test set of snapshot", size="medium")
    figure.supylabel(f"MRR, {protocol} protocol", size="medium")
    return figure


@styled
def matrix_heatmap(results: Sequence[Results]) -> Figure:
    """h[i, j] for j ≤ i: two panels for each system, one for each protocol."""
    systems = systems_of(results)
    alone = len(systems) == 1
    figure, axes = drawing.panels(
        2 * len(systems),
        columns=2 if alone else 4 if len(systems) <= 4 else 6,
        size=(4.0, 3.2) if alone else (2.4, 2.0),
        sharey=False,
    )
    for system, *pair in zip(systems, axes[::2], axes[1::2], strict=True):
        matrices = [system.matrix(protocol) for protocol in PROTOCOLS]
        low, high = marks.value_range(value for m in matrices for row in m for value in row)
        names = ["", ""] if alone else [f"{drawing.label(system.name, 20)}, ", ""]
        for panel, matrix, name, protocol in zip(pair, matrices, names, PROTOCOLS, strict=True):
            marks.heat(panel, matrix, low, high, font=9 if alone else 7)
            panel.set_title(f"{name}{protocol}", size="medium")
    drawing.heading(figure, marks.title("MRR of model (row) on test set (column)", systems))
    return figure


@styled
def time_per_snapshot(results: Sequence[Results]) -> Figure:
    """Training and validation time of each snapshot, stacked; a panel for each system."""
    systems = systems_of(results)
    figure, axes = marks.system_panels(systems)
    whole = [system.per_snapshot(lambda record: record.seconds) for system in systems]
    unit, unit_name = drawing.time_unit(max(max(times, default=0.0) for times in whole))
    for panel, system, times in zip(axes, systems, whole, strict=True):
        checking = [t / unit for t in system.per_snapshot(lambda r: r.validation_seconds)]
        training = [t / unit - c for t, c in zip(times, checking, strict=True)]
        snapshots = range(1, len(times) + 1)
        panel.bar(snapshots, training, 0.7, color=drawing.BLUE, label="Training")
        panel.bar(*(snapshots, checking, 0.7, training), color=drawing.ORANGE, label="Validation")
        marks.snapshot_axis(panel, len(times))
    drawing.heading(figure, marks.title("Time to learn each snapshot", systems))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower right", ncols=2)
    figure.supxlabel("Snapshot", size="medium")
    figure.supylabel(unit_name.capitalize(), size="medium")
    return figure


@styled
def mrr_by_method(results: Sequence[Results]) -> Figure:
    """MRR of the last model on all tests, both protocols; a panel for each dataset."""
    paper, current = (MEASURES[protocol][0] for protocol in PROTOCOLS)
    figure = marks.paired_bars(
        systems_of(results),
        marks.Series("paper protocol", drawing.BLUE, paper),
        marks.Series("current protocol", drawing.SKY, current),
    )
    drawing.heading(figure, "MRR of the last model on all test sets")
    return figure


@styled
def transfer_by_method(results: Sequence[Results], protocol: str = "paper") -> Figure:
    """Forward and backward transfer of MRR; a panel for each dataset."""
    fwt, bwt = MEASURES[protocol][4:6]
    figure = marks.paired_bars(
        systems_of(results),
        marks.Series("forward (FWT)", drawing.GREEN, fwt),
        marks.Series("backward (BWT)", drawing.VERMILION, bwt),
    )
    drawing.heading(figure, f"Transfer of MRR, {protocol} protocol")
    return figure


@styled
def cumulative_time(results: Sequence[Results]) -> Figure:
    """Learning time up to each snapshot, a line for each method, a panel for each dataset."""
    systems = systems_of(results)
    names = list(dict.fromkeys(system.name for system in systems))
    groups = by_dataset(systems)
    height = max(3.2, 1.2 + 0.15 * max(map(len, groups.values())))
    width = 6.4 if len(groups) == 1 else 4.8
    figure, axes = drawing.panels(len(groups), columns=2, size=(width, height), sharey=False)
    for panel, (dataset, group) in zip(axes, groups.items(), strict=True):
        marks.time_lines(panel, group, names, gap=10 / (72 * (height - 0.9)))
        panel.set_title(drawing.label(dataset))
    drawing.heading(figure, "Cumulative time to learn")
    figure.supxlabel("Snapshot", size="medium")
    return figure


@styled
def mrr_over_time(results: Sequence[Results], protocol: str = "current") -> Figure:
    """MRR on the tests so far against the time it took, a point for each snapshot and a line for
    each method; a panel for each dataset."""
    systems = systems_of(results)
    names = list(dict.fromkeys(system.name for system in systems))
    groups = by_dataset(systems)
    figure, axes = drawing.panels(len(groups), columns=2, size=(4.8, 3.2), sharey=False)
    for panel, (dataset, group) in zip(axes, groups.items(), strict=True):
        marks.gain_lines(panel, group, names, protocol)
        panel.set_title(drawing.label(dataset))
    drawing.heading(figure, "MRR on the tests so far, over the time to learn")
    handles = {
        text: handle
        for axis in axes
        for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside lower right", ncols=4)
    figure.supylabel(f"MRR, {protocol} protocol", size="medium")
    return figure


@dataclass(frozen=True)
class Plan:
    """A kind of figure, and what is said below it."""

    kind: str
    figure: Callable[[Sequence[Results]], Figure]
    caption: str


OF_ALL = (
    Plan(
        "mrr-by-method",
        mrr_by_method,
        "MRR of the last model on the union of all test sets. The best of each dataset is bold.",
    ),
    Plan(
        "transfer-by-method",
        transfer_by_method,
        "What is known of a snapshot before training on it (FWT), and what learning later "
        "snapshots does to earlier ones (BWT).",
    ),
    Plan(
        "cumulative-time",
        cumulative_time,
        "Learning time up to and with each snapshot, validation included, tests excluded.",
    ),
)
LINES = (
    "Each line is one model on the test sets of its own and all earlier snapshots. Where a "
    "line runs below those before it, older facts were forgotten; above them, they gained."
)
OF_DATASET = (
    Plan("mrr-over-snapshots", mrr_over_snapshots, LINES),
    Plan(
        "matrix",
        matrix_heatmap,
        "MRR of each model (row) on each test set (column) under both protocols.",
    ),
    Plan(
        "time-per-snapshot",
        time_per_snapshot,
        "Time to learn each snapshot, training and validation apart.",
    ),
)

MOST_IN_FULL = 6
"""With more systems on a dataset, only the best have a panel each."""
OF_CROWDED_DATASET = (
    Plan(
        "mrr-over-snapshots",
        lambda results: mrr_over_snapshots(best_runs(results)),
        f"The {MOST_IN_FULL} systems with the highest MRR. {LINES}",
    ),
)


@dataclass(frozen=True)
class Drawing:
    """A figure, rendered, of one dataset or with none of all."""

    stem: str
    caption: str
    dataset: str | None
    rendered: Rendered


def draw(results: Sequence[Results]) -> list[Drawing]:
    """All figures that the results call for; comparisons only where there are several systems."""
    systems = systems_of(results)
    groups = by_dataset(systems)
    stems = dict(zip(groups, _suffixes(list(groups)), strict=True))
    return [_drawing(plan, systems) for plan in OF_ALL if len(systems) > 1] + [
        _drawing(plan, group, dataset, stems[dataset])
        for dataset, group in groups.items()
        for plan in (OF_DATASET if len(group) <= MOST_IN_FULL else OF_CROWDED_DATASET)
    ]


def best_runs(results: Sequence[Results]) -> list[Results]:
    """The runs of the systems with the highest MRR, in the order that they had."""
    systems = systems_of(results)
    best = marks.ranking(systems, MEASURES[PROTOCOLS[0]][0])[:MOST_IN_FULL]
    return [run for system in systems if system.name in best for run in system.runs]


def draw_all(results: Sequence[Results], folder: Path) -> list[Path]:
    """Write all figures into `folder`, each as PNG and SVG."""
    return write_drawings(draw(results), folder)


def write_drawings(drawings: Sequence[Drawing], folder: Path) -> list[Path]:
    """Write rendered figures into `folder`."""
    return [path for one in drawings for path in drawing.write(one.rendered, folder, one.stem)]


def _drawing(
    plan: Plan, systems: Sequence[System], dataset: str | None = None, suffix: str = ""
) -> Drawing:
    figure = plan.figure([run for system in systems for run in system.runs])
    return Drawing(plan.kind + suffix, plan.caption, dataset, drawing.render(figure))


def _suffixes(datasets: Sequence[str]) -> list[str]:
    """What tells the files of datasets apart: nothing for one alone, else its name, made plain."""
    if len(datasets) == 1:
        return [""]
    slugs = [re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] for name in datasets]
    return [
        f"-{slug}" if slug and slugs.count(slug) == 1 else f"-{slug or 'dataset'}-{position}"
        for position, slug in enumerate(slugs, start=1)
    ]
