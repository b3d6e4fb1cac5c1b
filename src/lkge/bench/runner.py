"""Run what a study still lacks, and keep results as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lkge.bench.display import watching
from lkge.bench.jobs import Failure, Job, compile_kernels, run_jobs
from lkge.bench.kept import RESULTS, keep, kept_cells, kept_file
from lkge.bench.study import Cell, Study
from lkge.data.catalog import load

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Work:
    """Where results are kept and runs are made, how many at a time, and where datasets lie."""

    out: Path
    runs: Path
    jobs: int = 2
    data: Path | None = None


def run_study(study: Study, cells: Sequence[Cell], work: Work, console: Console) -> list[Failure]:
    """Make the runs of `cells` whose results are not kept yet.

    All that is kept is checked first, and that the datasets are there.
    """
    kept = kept_cells(study, work.out)
    wanted = [cell for cell in cells if cell not in kept]
    for dataset in dict.fromkeys(cell.config.dataset.name for cell in wanted):
        load(dataset, work.data)
    jobs = [Job(cell.name, cell.config, work.runs / cell.name) for cell in wanted]
    if work.jobs > 1:
        compile_kernels(jobs, console)
    files = {cell.name: kept_file(work.out, cell) for cell in wanted}
    with watching(console, len(cells), len(cells) - len(wanted)) as watch:
        return run_jobs(
            jobs,
            at_once=work.jobs,
            keep=lambda job: keep(job.folder / RESULTS, files[job.name]),
            watch=watch,
            data=work.data,
        )
