"""The result folder of a study: one JSON file for each finished run."""

import re
from collections.abc import Mapping
from pathlib import Path

from lkge.config import RunConfig
from lkge.configure import from_tree
from lkge.data.documents import read_json
from lkge.data.files import write_bytes_atomically
from lkge.errors import LkgeError, RunError
from lkge.evaluation.results import Results
from lkge.studies.study import PAPER, RunSpec, Study, short_name, study_named

RESULTS = "results.json"
NOT_COMPARED = frozenset({"dataset.name", "training.backend", "training.device"})
"""Settings that say where the facts lie and where a run was computed, not what it is."""


def read_results(file: Path) -> Results:
    """The results in a JSON file."""
    try:
        return Results.from_json(read_json(file))
    except OSError as error:
        raise RunError(f"{file}: cannot be read: {error.strerror}") from error
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file}: not the results of a run: {error}") from error


def results_in(folder: Path) -> list[Results]:
    """All results of a folder, in the order of the paper's tables; other names come last."""
    paper = study_named(PAPER)
    datasets, methods = list(paper.datasets), list(paper.specs)

    def place(results: Results) -> tuple[int, int]:
        dataset, method = results.dataset, results.method
        return [*datasets, dataset].index(dataset), [*methods, method].index(method)

    files = sorted(folder.glob("*.json"), key=lambda file: file.stem)
    return sorted(map(read_results, files), key=place)


def stored_runs(study: Study, folder: Path) -> dict[RunSpec, Results]:
    """The stored runs of the study, with any seed, in the order of the study.

    Files with other names are ignored. A file with other settings than the study's is an error.
    """
    found: dict[RunSpec, Results] = {}
    for dataset in study.datasets:
        for spec in study.specs.values():
            stem = re.escape(f"{short_name(dataset)}-{spec.slug}")
            pattern = re.compile(rf"{stem}-(0|[1-9]\d*)\.json")
            matches = (pattern.fullmatch(file.name) for file in folder.glob("*.json"))
            for seed in sorted(int(match.group(1)) for match in matches if match):
                run = study.run_spec(spec, dataset, seed)
                file = folder / f"{run.name}.json"
                found[run] = read_results(file)
                require_same(file, found[run].config, run.config)
    return found


def store(results: Path, file: Path) -> None:
    """Check the results of a finished run and copy them to `file`."""
    read_results(results)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomically(file, results.read_bytes())


def require_same(place: Path, there: Mapping[str, object], wanted: RunConfig) -> None:
    """Raise `RunError` if `there` differs from `wanted`. A missing setting has its default."""
    try:
        config = from_tree(there).flat()
    except LkgeError as error:
        raise RunError(f"{place}: {error}; move it away") from error
    for name, value in wanted.flat().items():
        if name not in NOT_COMPARED and config.get(name) != value:
            raise RunError(
                f"{place}: was made with {name} = {config.get(name)!r}, but {value!r} is wanted; "
                "move it away to run it again, or choose another folder with --out"
            )
