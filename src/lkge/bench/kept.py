"""The folder of a study: a JSON file a run, written when it is done and never run again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from lkge.bench.study import PAPER, Cell, Study, short_name, study_named
from lkge.config import RunConfig
from lkge.configure import from_tree
from lkge.data.files import write_bytes_atomically
from lkge.errors import LkgeError, RunError
from lkge.evaluation.results import Results

RESULTS = "results.json"
ANYWHERE = frozenset({"dataset.name", "training.backend", "training.device"})
"""Settings that say where the facts lie and where a run was computed, not what it is."""


def read_results(file: Path) -> Results:
    """The results in a JSON file."""
    try:
        return Results.from_json(json.loads(file.read_text(encoding="utf-8")))
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file}: not the results of a run: {error}") from error


def results_in(folder: Path) -> list[Results]:
    """All results of a folder, in the order of the paper's tables."""
    paper = study_named(PAPER)
    files = sorted(folder.glob("*.json"))
    found = [(read_results(file), file.stem) for file in files]
    return [
        results
        for results, _ in sorted(
            found,
            key=lambda pair: (
                _place(pair[0].dataset, paper.datasets),
                _place(pair[0].method, tuple(paper.entrants)),
                pair[1],
            ),
        )
    ]


def kept_file(folder: Path, cell: Cell) -> Path:
    """Where the results of a run are kept."""
    return folder / f"{cell.name}.json"


def kept_cells(study: Study, folder: Path) -> dict[Cell, Results]:
    """The runs of the study that are kept, with any seed, in the order of the study.

    Files of other names are let be; a file with other settings than the study's is refused.
    """
    found: dict[Cell, Results] = {}
    for dataset in study.datasets:
        for entrant in study.entrants.values():
            stem = f"{short_name(dataset)}-{entrant.slug}"
            for seed in sorted(_seeds(folder, stem)):
                cell = study.cell(entrant, dataset, seed)
                file = kept_file(folder, cell)
                found[cell] = read_results(file)
                require_same(file, found[cell].config, cell.config)
    return found


def keep(results: Path, file: Path) -> None:
    """Copy the results of a finished run."""
    read_results(results)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomically(file, results.read_bytes())


def require_same(place: Path, there: Mapping[str, object], wanted: RunConfig) -> None:
    """Refuse what was made with other settings. What it does not say had its default."""
    try:
        config = from_tree(there).flat()
    except LkgeError as error:
        raise RunError(f"{place}: {error}; move it away") from error
    for name, value in wanted.flat().items():
        if name not in ANYWHERE and config.get(name) != value:
            raise RunError(
                f"{place}: was made with {name} = {config.get(name)!r}, but {value!r} is wanted; "
                "move it away to run it again, or choose another folder with --out"
            )


def _seeds(folder: Path, stem: str) -> list[int]:
    pattern = re.compile(rf"{re.escape(stem)}-(0|[1-9]\d*)\.json")
    matches = (pattern.fullmatch(file.name) for file in folder.glob("*.json"))
    return [int(match.group(1)) for match in matches if match]


def _place(name: str, known: tuple[str, ...]) -> int:
    return known.index(name) if name in known else len(known)
