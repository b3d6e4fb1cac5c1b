"""The style of all figures, and their files: the same input gives the same SVG."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lkge.data.files import write_bytes_atomically
from lkge.reports import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1c2430"
SOFT = "#5b6675"
LINE = "#dfe3e8"
SHEET = "#fefefe"
"""Text, secondary text, grid and background. Each colour has one use, so a page can replace it."""

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = OKABE_ITO = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
)
"""The colours of Okabe and Ito that are visible on white; safe for colour-blind readers."""

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "figure.facecolor": SHEET,
    "figure.constrained_layout.wspace": 0.05,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.7,
    "lines.markersize": 4.5,
    "savefig.dpi": 160,
    "savefig.facecolor": SHEET,
    "svg.hashsalt": "lkge",
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's defaults and `STYLE`, independent of the user's settings; also a decorator."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        with matplotlib.rc_context(STYLE):
            yield


@dataclass(frozen=True)
class FigureBytes:
    """A figure as bytes."""

    png: bytes
    svg: bytes


@style()
def render(figure: Figure) -> FigureBytes:
    """The figure as PNG and SVG, without date and creator. The layout is computed once."""
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)
    omitted = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata=omitted)
    return FigureBytes(png.getvalue(), svg.getvalue())


def save(figure: Figure, folder: Path, stem: str) -> list[Path]:
    """Write `stem.png` and `stem.svg` into `folder`, created if it does not exist."""
    return write(render(figure), folder, stem)


def write(rendered: FigureBytes, folder: Path, stem: str) -> list[Path]:
    """Write the PNG and the SVG into `folder`, created if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / f"{stem}.png": rendered.png, folder / f"{stem}.svg": rendered.svg}
    for path, data in files.items():
        write_bytes_atomically(path, data)
    return list(files)


def panels(
    count: int, *, columns: int, size: tuple[float, float], sharey: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels of `size` inches each, in rows of at most `columns`."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def heading(figure: Figure, words: str, x: str = "", y: str = "") -> None:
    """A title for the whole figure, at its left edge, and the names of its axes."""
    figure.suptitle(words, x=0.012, ha="left")
    if x:
        figure.supxlabel(x, size="medium")
    if y:
        figure.supylabel(y, size="medium")


MAX_LABEL = 30


def label(name: str, most: int = MAX_LABEL) -> str:
    """A name short enough for a figure. Matplotlib would omit a label that starts with "_"."""
    short = text.shortened(name, most)
    return f" {short}" if short.startswith("_") else short


def labels(names: Iterable[str]) -> dict[str, str]:
    """The label of each name, so that the labels differ."""
    return {name: label(short) for name, short in text.distinct_labels(names, MAX_LABEL).items()}


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit for times up to `seconds`: its length in seconds and its name."""
    if seconds >= 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if seconds >= 120 else (1.0, "seconds")


def spread_out(values: Sequence[float], gap: float, top: float) -> list[float]:
    """The places nearest to `values`, in their order, `gap` apart, within 0 … `top` if they fit.

    With the k-th value lowered by k gaps, places only must not fall: isotonic regression, which
    pools neighbours in the wrong order into their mean.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    pools: list[list[float]] = []
    for rank, position in enumerate(order):
        pools.append([values[position] - rank * gap])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            pool = pools.pop()
            pools[-1] += pool
    lowered = [fmean(pool) for pool in pools for _ in pool]
    highest = max(top - (len(values) - 1) * gap, 0.0)
    places = [0.0] * len(values)
    for rank, position in enumerate(order):
        places[position] = min(max(lowered[rank], 0.0), highest) + rank * gap
    return places
