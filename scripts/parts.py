"""Evergreen with one of its constants changed, to see what that is good for.

    python scripts/parts.py ENTITY --data dataset.zip as-it-is apart-from-all
    python scripts/parts.py brick as-it-is large-batches short-patience

Each part is a run with evergreen's settings, and a row of a table: MRR of the last model and
backward transfer in both protocols, and the time to learn.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from lkge import GrowingGraph, RunConfig, api
from lkge.config import configure
from lkge.evaluation.results import Results
from lkge.methods import evergreen
from lkge.methods.parts import retelling
from lkge.training.loop import Loop

Change = tuple[ModuleType, str, float]

PARTS: Mapping[str, tuple[Change, ...]] = {
    "as-it-is": (),
    "apart-from-all": ((retelling, "RIVALS", 1.0),),
    "drawn-count-once": ((retelling, "POWER", 0.0),),
    "drawn-count-in-full": ((retelling, "POWER", 1.0),),
    "large-batches": ((evergreen, "FEWEST_STEPS", 1),),
    "short-patience": ((evergreen, "ENOUGH_STEPS", 0),),
    "dense-as-sparse": ((evergreen, "DENSE", math.inf),),
}
"""What a part changes: old facts told apart from all entities instead of some, these counted once
or as often as all of their share; batches of full size however small a snapshot; no more patience
where epochs are short; old facts that count as much in dense graphs as in others."""

HEAD = """| {} | MRR, `paper` | `current` | BWT, `paper` | `current` | s |
| --- | ---: | ---: | ---: | ---: | ---: |"""


@contextmanager
def changed(part: str) -> Iterator[None]:
    """The constants of a part, and then those that were."""
    before = [(room, name, getattr(room, name)) for room, name, _ in PARTS[part]]
    try:
        for room, name, value in PARTS[part]:
            setattr(room, name, value)
        yield
    finally:
        for room, name, value in before:
            setattr(room, name, value)


def learned(graph: GrowingGraph, part: str, config: RunConfig) -> Results:
    """Evergreen on the graph with that part changed."""
    with changed(part):
        return Loop(graph, config).run().results


def row(part: str, results: Results) -> str:
    """A row of the table."""
    both = [results.protocols[name] for name in ("paper", "current")]
    cells = [f"{each.final.mrr:.4f}" for each in both] + [f"{each.bwt:+.4f}" for each in both]
    return f"| {part} | {' | '.join(cells)} | {results.seconds:.0f} |"


def parser_of(about: str | None, what: str, choices: Iterable[str]) -> argparse.ArgumentParser:
    """Of the flags of a script that learns a dataset once for each of some choices."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument(what, nargs="+", choices=choices)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--max-epochs", type=int, default=20)
    parser.add_argument("--data", type=Path, default=None)
    return parser


def main() -> None:
    """Learn with each part changed, and print the table as it grows."""
    parser = parser_of(__doc__, "parts", PARTS)
    parser.add_argument("--transfer", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    given = {name: getattr(options, name) for name in ("seed", "max_epochs", "transfer")}
    config = configure(given, preset="evergreen")
    graph = api.load(options.dataset, options.data)
    print(HEAD.format(graph.name), flush=True)
    for part in options.parts:
        print(row(part, learned(graph, part, config)), flush=True)


if __name__ == "__main__":
    main()
