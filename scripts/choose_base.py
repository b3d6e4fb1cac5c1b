"""Try the paper's grid for the base model on the first snapshot, by its validation facts.

    python scripts/choose_base.py --data PATH/dataset.zip

Learning rate, batch size and dimension; Fine-tune, which is the base model alone, on ENTITY.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

from lkge.api import load
from lkge.config import RunConfig
from lkge.data.files import write_text_atomically
from lkge.data.snapshots import GrowingGraph
from lkge.evaluation.results import SnapshotRecord
from lkge.training.events import ignore
from lkge.training.loop import Loop
from lkge.training.warmup import warm_up

KEPT = Path(__file__).parents[1] / "results" / "paper" / "base-model.md"
LEARNING_RATES, BATCH_SIZES, DIMS = (5e-4, 1e-3, 1e-4), (2048, 1024), (200, 100)


def main() -> None:
    """Learn the snapshot with each choice; keep the table as it grows."""
    parser = argparse.ArgumentParser(description="The paper's grid for the base model.")
    parser.add_argument("--data", type=Path, required=True, help="the archive of the datasets")
    whole = load("ENTITY", parser.parse_args().data)
    first = GrowingGraph(whole.name, whole.vocabulary, whole.snapshots[:1])
    warm_up(RunConfig(), ignore)
    rows: list[str] = []
    for dim, rate, batch in product(DIMS, LEARNING_RATES, BATCH_SIZES):
        record = learned(
            first,
            RunConfig(method="fine-tune", learning_rate=rate, batch_size=batch, dim=dim),
        )
        rows.append(
            f"| {rate:g} | {batch} | {dim} | {record.valid_mrr:.4f} | {record.best_epoch}"
            f" | {record.seconds:.0f} |"
        )
        print(rows[-1], flush=True)
        write_text_atomically(KEPT, table(rows))


def learned(graph: GrowingGraph, config: RunConfig) -> SnapshotRecord:
    """How the only snapshot was learned."""
    return Loop(graph, config).run().results.snapshots[0]


def table(rows: list[str]) -> str:
    """All choices in Markdown."""
    lines = [
        "# The base model",
        "",
        "`python scripts/choose_base.py --data dataset.zip`: Fine-tune on the first snapshot of",
        "ENTITY, seed 11, validation MRR at the best epoch.",
        "",
        "| learning rate | batch | dimension | validation MRR | best epoch | s |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
