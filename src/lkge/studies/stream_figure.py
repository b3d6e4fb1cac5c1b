"""The figure of `lkge bench streams`: quality over the position in the stream."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from lkge.reports import plot_parts, plot_style
from lkge.reports.plot_style import heading, style

Line = Sequence[tuple[int, float]]
"""Number of adds and MRR."""
Lines = Mapping[str, Mapping[str, Mapping[str, Line]]]
"""Stream → system → group of held-out facts → line."""

TITLES = {"all": "all held-out facts", "oldest": "oldest tenth", "newest": "newest tenth"}
PANEL = (2.9, 2.3)
REFERENCE = "at-once"


@style()
def quality_over_adds(lines: Lines) -> Figure:
    """A row of panels for each stream: MRR of all, of the oldest and of the newest held-out facts
    over the number of adds; a line for each system."""
    names = list(dict.fromkeys(name for group in lines.values() for name in group))
    looks = plot_parts.looks(names)
    if REFERENCE in looks:
        looks[REFERENCE] |= {
            "linestyle": plot_style.DASHES[1],
            "color": plot_style.SOFT,
            "zorder": 1,
        }
    count = len(TITLES)
    figure, axes = plot_style.panels(count * len(lines), columns=count, size=PANEL, sharey=False)
    for row, (stream, systems) in enumerate(lines.items()):
        panels = axes[count * row : count * (row + 1)]
        _row(panels, stream, systems, looks)
    handles: dict[str, Any] = {}
    for panel in axes:
        found, labels = panel.get_legend_handles_labels()
        handles |= zip(labels, found, strict=True)
    heading(figure, "Quality over the position in the stream", "Adds", "MRR")
    figure.legend(handles.values(), handles.keys(), loc="outside lower right", ncols=len(names))
    return figure


def _row(
    panels: Sequence[Axes],
    stream: str,
    systems: Mapping[str, Mapping[str, Line]],
    looks: Mapping[str, Mapping[str, Any]],
) -> None:
    """The panels of a stream, on one scale."""
    found = [line for groups in systems.values() for line in groups.values()]
    values = [value for line in found for _, value in line if not math.isnan(value)]
    top = 1.08 * max(values, default=1.0)
    last = max((adds for line in found for adds, _ in line), default=1)
    for panel, (group, words) in zip(panels, TITLES.items(), strict=True):
        panel.set_title(f"{plot_style.label(stream)}: {words}")
        for name, groups in systems.items():
            _draw(panel, groups[group], last, looks[name])
        panel.set_ylim(0, top)
        panel.set_xlim(-0.04 * last, 1.04 * last)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
        panel.grid(axis="y")
        panel.tick_params(length=0)
        if panel is not panels[0]:
            panel.tick_params(labelleft=False)


def _draw(panel: Axes, line: Line, last: int, look: Mapping[str, Any]) -> None:
    """A line with a marker at each point; a single point has a faint level over the whole panel."""
    if not line:
        return
    panel.plot([adds for adds, _ in line], [value for _, value in line], **look)
    if len(line) == 1:
        level = {"color": look["color"], "linestyle": look["linestyle"], "alpha": 0.45}
        panel.hlines(line[0][1], 0, last, linewidth=1.0, **level)
