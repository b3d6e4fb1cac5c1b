"""What of a backward transfer is forgetting, and what comes from the filter or from newcomers.

    python scripts/forgetting.py --dataset FACT --method evergreen --data dataset.zip

A test fact is ranked among the entities of its own time (`paper`) or of today (`current`), and what
is left out is what was known in its own time or what is known today. Its question is answered again
if a later snapshot has a training fact that answers it, too; where only the knowledge of its own
time is left out, that fact, which is true and was learned, stands before it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge import GrowingGraph, api
from lkge.config import settings_with
from lkge.data.answers import KnownAnswers
from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.learning.loop import Loop
from lkge.methods import Method, method_named, register
from lkge.models.model import Model
from lkge.models.predictor import View

Inverses = NDArray[np.float64]
"""1 / rank of each question in each view, (n, 3)."""

VIEWS = (
    "its entities, its knowledge (`paper`)",
    "its entities, today's knowledge",
    "today's entities, today's knowledge (`current`)",
)


class Asked(NamedTuple):
    """What was asked of two models: the one that had just learned it, and the last."""

    first: Inverses
    last: Inverses
    again: NDArray[np.bool_]


class Witness:
    """Asks every model about all tests so far."""

    def __init__(self, graph: GrowingGraph) -> None:
        self._snapshots = graph.snapshots
        self._answers = KnownAnswers.build(
            [np.concatenate([s.train, s.valid, s.test]) for s in graph.snapshots]
        )
        self._found: dict[tuple[int, int], Inverses] = {}

    def look(self, method: Method, model: Model, today: Snapshot) -> None:
        """Ask the model as it is after `today`."""
        predictor = method.predictor(model)
        for then in self._snapshots[: today.index + 1]:
            moments = ((then, then), (then, today), (today, today))
            views = [View(size.num_entities, known.index) for size, known in moments]
            ranks = predictor.ranks(with_inverses(then.test), views, self._answers)
            self._found[today.index, then.index] = 1 / ranks

    def asked(self) -> list[Asked]:
        """For each snapshot but the last: its questions, then and at the end."""
        end = len(self._snapshots) - 1
        return [
            Asked(self._found[j, j], self._found[end, j], self._answered_again(j))
            for j in range(end)
        ]

    def _answered_again(self, j: int) -> NDArray[np.bool_]:
        """Which questions of the tests of snapshot j have a training fact in a later one, (n,)."""
        later = np.concatenate([snapshot.train for snapshot in self._snapshots[j + 1 :]])
        tests = with_inverses(self._snapshots[j].test)
        return np.isin(self._keys(tests), self._keys(with_inverses(later)))

    def _keys(self, edges: Facts) -> NDArray[np.int64]:
        """A number for each question (h, r), (n,)."""
        return edges[:, 0].astype(np.int64) * 2 * self._snapshots[-1].num_relations + edges[:, 1]


def witnessed(name: str, witness: Witness) -> type[Method]:
    """The method, looked at after each snapshot."""

    class Witnessed(method_named(name)):  # type: ignore[misc]
        name: ClassVar[str] = "witnessed"

        def end(self, model: Model, snapshot: Snapshot) -> None:
            super().end(model, snapshot)
            witness.look(self, model, snapshot)

    return register(Witnessed)


def table(asked: list[Asked]) -> str:
    """BWT in each view: of all questions, of those that are answered again, and of the others."""
    lines = [
        "| A test fact is ranked with | all | answered again | not again |",
        "| --- | ---: | ---: | ---: |",
    ]
    for place, view in enumerate(VIEWS):
        changes = [part.last[:, place] - part.first[:, place] for part in asked]
        parts = [(change, part.again) for change, part in zip(changes, asked, strict=True)]
        transfers = (
            np.mean([change.mean() for change, _ in parts]),
            np.mean([change[again].mean() for change, again in parts]),
            np.mean([change[~again].mean() for change, again in parts]),
        )
        lines.append(f"| {view} | {' | '.join(f'{found:+.4f}' for found in transfers)} |")
    share = np.mean([part.again.mean() for part in asked])
    lines.append(f"| share of questions | 1 | {share:.2f} | {1 - share:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Learn, look, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--method", default="evergreen")
    parser.add_argument("--max-epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--data", type=Path, default=None)
    options = parser.parse_args()
    graph = api.load(options.dataset, options.data)
    witness = Witness(graph)
    changes = {
        "method": witnessed(options.method, witness).name,
        "seed": options.seed,
        "max_epochs": options.max_epochs,
    }
    Loop(graph, settings_with(changes, preset="evergreen")).run()
    print(f"{options.method} on {graph.name}, BWT\n\n{table(witness.asked())}")


if __name__ == "__main__":
    main()
