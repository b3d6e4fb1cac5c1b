"""The style of all figures, and their files: the same input gives the same SVG."""

import io
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from lkge.data.files import write_bytes_atomically
from lkge.reports import text

STYLE = Path(__file__).parent / "templates" / "figures.mplstyle"
COLOURS = matplotlib.rc_params_from_file(STYLE, use_default_template=False)
INK, SOFT = str(COLOURS["text.color"]), str(COLOURS["axes.edgecolor"])
LINE, SHEET = str(COLOURS["grid.color"]), str(COLOURS["figure.facecolor"])
"""Text, secondary text, grid and background. Each colour has one use, so a page can replace it."""

OKABE_ITO = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The colours of Okabe and Ito that are visible on white; safe for colour-blind readers."""
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = OKABE_ITO

DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
LINES = (cycler(ls=DASHES) + cycler(marker=("o", "s", "^"))) * cycler(color=OKABE_ITO)
"""Dashes, marker and colour of each system of a figure."""

MAX_LABEL = 30


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's defaults and `STYLE`, independent of the user's settings; also a decorator."""
    with matplotlib.style.context(STYLE, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@dataclass(frozen=True)
class RenderedFigure:
    """The files of a figure: of one dataset, or of all (`dataset` is None). Size in points."""

    stem: str
    png: bytes
    svg: bytes
    pdf: bytes
    size: tuple[float, float]
    caption: str = ""
    dataset: str | None = None

    def write(self, folder: Path) -> list[Path]:
        """Write `stem.png`, `stem.svg` and `stem.pdf` into `folder`, created if it does not
        exist."""
        folder.mkdir(parents=True, exist_ok=True)
        data = {"png": self.png, "svg": self.svg, "pdf": self.pdf}
        files = {folder / f"{self.stem}.{suffix}": content for suffix, content in data.items()}
        for path, content in files.items():
            write_bytes_atomically(path, content)
        return list(files)


@style()
def render(
    figure: Figure, stem: str, caption: str = "", dataset: str | None = None
) -> RenderedFigure:
    """The figure as PNG, SVG and PDF, without date and creator. The layout is computed once."""
    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        figure.set_layout_engine(None)
    omitted = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    png, svg, pdf = io.BytesIO(), io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    figure.savefig(svg, format="svg", metadata=omitted)
    omitted = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    figure.savefig(pdf, format="pdf", metadata=omitted)
    width, height = 72 * figure.get_size_inches()
    return RenderedFigure(
        stem,
        *(png.getvalue(), svg.getvalue(), pdf.getvalue()),
        size=(width, height),
        caption=caption,
        dataset=dataset,
    )


def panels(
    count: int, *, columns: int, size: tuple[float, float], sharey: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels of `size` inches each, in rows of at most `columns`."""
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
        return 3600.0, "Hours"
    return (60.0, "Minutes") if seconds >= 120 else (1.0, "Seconds")


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
