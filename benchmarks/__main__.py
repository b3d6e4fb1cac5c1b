"""`python -m benchmarks --data PATH/dataset.zip`: print all comparisons, keep them in `results/`.

Without the paper's datasets the embedded graph takes their place, and nothing is kept. Run it on a
machine that does nothing else.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from pathlib import Path

import numba
import torch
from rich.console import Console
from rich.table import Table

from benchmarks import jobs, kernels, peers, softmax
from benchmarks.comparison import Comparison
from benchmarks.whole_run import five_snapshots, peak_memory, start_up
from lkge.api import load
from lkge.data.files import write_text_atomically

KEPT = Path(__file__).parents[1] / "results" / "speed.md"


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description="Speed, side by side.")
    parser.add_argument("--data", type=Path, help="the archive of the paper's datasets")
    data = parser.parse_args().data
    graph = load("ENTITY", data) if data else load("brick")
    comparisons = [kernels.step(graph), *kernels.ranking(graph), *peers.epoch(graph)]
    comparisons += [*softmax.step(graph), *softmax.epoch(graph)]
    comparisons += jobs.side_by_side(data) if data else []
    others = [*start_up(), *([*peak_memory(data), *five_snapshots(data)] if data else [])]
    console = Console()
    console.print(_terminal(comparisons))
    console.print("\n".join(others))
    if data:
        write_text_atomically(KEPT, _markdown(graph.name, comparisons, others))
        console.print(f"kept in {KEPT.parent.name}/{KEPT.name}")


def _rows(comparisons: Sequence[Comparison]) -> list[list[str]]:
    return [
        [
            one.name,
            one.peer,
            f"{one.ours * 1000:,.1f}",
            f"{one.other * 1000:,.1f}",
            f"{one.ratio:.2g}×" if one.ratio < 1 else f"{one.ratio:.1f}×",
            f"{one.wanted:g}×",
        ]
        for one in comparisons
    ]


HEADER = ["what", "against", "ours, ms", "other, ms", "ratio", "wanted"]


def _terminal(comparisons: Sequence[Comparison]) -> Table:
    table = Table(title="Speed, side by side")
    for name in HEADER:
        table.add_column(name, justify="left" if name in HEADER[:2] else "right")
    for one, cells in zip(comparisons, _rows(comparisons), strict=True):
        table.add_row(*cells, style="green" if one.reached else "red")
    return table


def _markdown(graph: str, comparisons: Sequence[Comparison], others: Sequence[str]) -> str:
    lines = [
        "# Speed, side by side",
        "",
        f"`make bench DATA=PATH/dataset.zip`, graph {graph}, {platform.machine()},"
        f" {numba.get_num_threads()} threads, torch {torch.__version__},"
        f" numba {numba.__version__}.",
        "",
        "| " + " | ".join(HEADER) + " |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        *("| " + " | ".join(cells) + " |" for cells in _rows(comparisons)),
        "",
        *(f"* {line}" for line in others),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
