"""Run the paper's grid and keep its results: JSON a run, and one table beside the printed figures.

    python scripts/reproduce.py --data PATH/dataset.zip [--jobs 2] [--methods …] [--datasets …]

Each run is `lkge run` in a process of its own with one thread, in `runs/paper/`, and goes on where
it was stopped. Finished runs are copied to `results/paper/` as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATASETS = ("ENTITY", "RELATION", "FACT", "HYBRID")
METHODS = ("lkge", "fine-tune", "snapshot", "re-train")
SETTINGS: dict[tuple[str, str], list[str]] = {("FACT", "lkge"): ["--beta", "1.0"]}
"""Flags beyond the defaults: the paper chose β = 1 on FACT."""

PRINTED = {
    "snapshot": {"ENTITY": 0.084, "RELATION": 0.021, "FACT": 0.082, "HYBRID": 0.036},
    "re-train": {"ENTITY": 0.236, "RELATION": 0.219, "FACT": 0.206, "HYBRID": 0.227},
    "fine-tune": {"ENTITY": 0.165, "RELATION": 0.093, "FACT": 0.172, "HYBRID": 0.135},
    "lkge": {"ENTITY": 0.234, "RELATION": 0.192, "FACT": 0.210, "HYBRID": 0.207},
}
"""MRR on the union of the test sets, the paper's Table 2."""

Cell = tuple[str, str]


def main() -> None:
    """Run what is missing, then write the table."""
    options = _options()
    cells = [(dataset, method) for method in options.methods for dataset in options.datasets]
    options.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda cell: run(cell, options.seed, options.data, options.out), cells))
    (options.out / "README.md").write_text(table(options.out, options.seed), encoding="utf-8")


def run(cell: Cell, seed: int, data: Path, out: Path) -> None:
    """One run, unless its results are kept already."""
    kept = out / f"{name_of(cell, seed)}.json"
    if kept.exists():
        return
    folder = ROOT / "runs" / "paper" / name_of(cell, seed)
    dataset, method = cell
    if (folder / "config.toml").exists():
        command = ["--resume", str(folder)]
    else:
        command = ["--dataset", dataset, "--method", method, "--seed", str(seed)]
        command += [*SETTINGS.get(cell, []), "--out", str(folder)]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".log").open("a", encoding="utf-8") as log:
        subprocess.run(
            [sys.executable, "-m", "lkge", "run", *command, "--data", str(data)],
            env={**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
            check=True,
        )
    kept.write_bytes((folder / "results.json").read_bytes())
    print(f"finished {dataset} {method}", flush=True)


def name_of(cell: Cell, seed: int) -> str:
    """The name of a run's folder and of its kept results."""
    return f"{cell[0]}-{cell[1]}-{seed}"


def table(out: Path, seed: int) -> str:
    """All kept results beside the paper's, in Markdown."""
    from lkge.evaluation.results import Results

    lines = [
        "# The paper's grid",
        "",
        f"`python scripts/reproduce.py --data dataset.zip`, seed {seed}, the paper's settings,",
        "one thread a run. MRR and Hits of the last model on the union of all test sets.",
        "",
        "| dataset | method | paper MRR | MRR | H@1 | H@3 | H@10 | FWT | BWT "
        "| MRR `current` | BWT `current` | training, s | carried, kB |",
        "| --- | --- " + "| ---: " * 11 + "|",
    ]
    for dataset in DATASETS:
        for method in METHODS:
            path = out / f"{name_of((dataset, method), seed)}.json"
            if path.exists():
                found = Results.from_json(json.loads(path.read_text(encoding="utf-8")))
                lines.append(row(dataset, method, found))
    return "\n".join(lines) + "\n"


def row(dataset: str, method: str, found: Results) -> str:  # noqa: F821
    """One line of the table."""
    then, now = found.protocols["paper"], found.protocols["current"]
    cells = [
        dataset,
        method,
        f"{PRINTED[method][dataset]:.3f}",
        *(f"{x:.3f}" for x in (then.final.mrr, then.final.hits1, then.final.hits3)),
        f"{then.final.hits10:.3f}",
        *(f"{x:.3f}" for x in (then.fwt, then.bwt, now.final.mrr, now.bwt)),
        f"{found.seconds:.0f}",
        f"{found.snapshots[-1].carried_bytes / 1000:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="the archive of the datasets")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "paper")
    return parser.parse_args()


if __name__ == "__main__":
    main()
