"""What of a backward transfer is forgetting, and what comes from the filter or from newcomers.

    python scripts/forgetting.py --dataset FACT --method evergreen --data dataset.zip
    python scripts/forgetting.py --dataset FACT --valid --distillation 3 --data dataset.zip

A test fact, or with `--valid` a validation fact, is ranked among the entities of its own time
(`paper`) or of today (`current`), and what is left out is what was known in its own time or what is
known today. Its question is answered again if a later snapshot has a training fact that answers it,
too; where only the knowledge of its own time is left out, that fact, which is true and was learned,
stands before it. Where validation facts are asked about, no filter knows a test fact.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lkge import GrowingGraph, api
from lkge.config import EVERGREEN, configure
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, Snapshot, with_inverses
from lkge.learning.loop import Loop
from lkge.methods import Method, method_named, register
from lkge.models.model import Model
from lkge.models.predictor import Predictor, View

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
    """Asks every model about all tests so far, or about all validation facts."""

    def __init__(self, graph: GrowingGraph, *, valid: bool = False) -> None:
        self._snapshots = graph.snapshots
        self._valid = valid
        self._answers = KnownFacts.build([self._known(each) for each in graph.snapshots])
        self._found: dict[tuple[int, int], Inverses] = {}

    def look(self, predictor: Predictor, today: Snapshot) -> None:
        """Ask a model as it is after `today`."""
        for then in self._snapshots[: today.index + 1]:
            moments = ((then, then), (then, today), (today, today))
            views = [View(size.num_entities, known.index) for size, known in moments]
            ranks = predictor.ranks(self._questions(then), views, self._answers)
            self._found[today.index, then.index] = 1 / ranks

    def asked(self) -> list[Asked]:
        """For each snapshot but the last: its questions, then and at the end."""
        end = len(self._snapshots) - 1
        return [
            Asked(self._found[j, j], self._found[end, j], self._answered_again(j))
            for j in range(end)
        ]

    def mrr(self) -> NDArray[np.float64]:
        """Of the last model on the questions of all snapshots, in each view, (3,)."""
        end = len(self._snapshots) - 1
        return np.concatenate([self._found[end, j] for j in range(end + 1)]).mean(0)

    def _known(self, snapshot: Snapshot) -> Facts:
        """What a filter knows of a snapshot."""
        parts = [snapshot.train, snapshot.valid, *([] if self._valid else [snapshot.test])]
        return np.concatenate(parts)

    def _questions(self, snapshot: Snapshot) -> Facts:
        """What is asked about a snapshot, in both directions."""
        return with_inverses(snapshot.valid if self._valid else snapshot.test)

    def _answered_again(self, j: int) -> NDArray[np.bool_]:
        """Which questions about snapshot j have a training fact in a later one, (n,)."""
        later = np.concatenate([snapshot.train for snapshot in self._snapshots[j + 1 :]])
        asked = self._questions(self._snapshots[j])
        return np.isin(self._keys(asked), self._keys(with_inverses(later)))

    def _keys(self, edges: Facts) -> NDArray[np.int64]:
        """A number for each question (h, r), (n,)."""
        return edges[:, 0].astype(np.int64) * 2 * self._snapshots[-1].num_relations + edges[:, 1]


def witnessed(name: str, witness: Witness) -> type[Method]:
    """The method, looked at after each snapshot."""

    class Witnessed(method_named(name)):  # type: ignore[misc]
        name: ClassVar[str] = "witnessed"

        def end(self, model: Model, snapshot: Snapshot) -> None:
            super().end(model, snapshot)
            witness.look(self.predictor(model), snapshot)

    return register(Witnessed)


def table(asked: list[Asked], mrr: NDArray[np.float64]) -> str:
    """In each view the MRR of the last model; of old questions the MRR when they were learned and
    in the end; BWT, their difference, also of those that are answered again and of the others."""
    lines = [
        "| A fact is ranked with | MRR | old, at first | old, at last | BWT | again | not again |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for place, view in enumerate(VIEWS):
        changes = [(part.last - part.first)[:, place] for part in asked]
        parts = [(change, part.again) for change, part in zip(changes, asked, strict=True)]
        transfers = (
            np.mean([change.mean() for change in changes]),
            np.mean([change[again].mean() for change, again in parts]),
            np.mean([change[~again].mean() for change, again in parts]),
        )
        levels = (
            mrr[place],
            np.mean([part.first[:, place].mean() for part in asked]),
            np.mean([part.last[:, place].mean() for part in asked]),
        )
        cells = [f"{level:.4f}" for level in levels] + [f"{found:+.4f}" for found in transfers]
        lines.append(f"| {view} | {' | '.join(cells)} |")
    share = np.mean([part.again.mean() for part in asked])
    lines.append(f"| share of questions | | | | 1 | {share:.2f} | {1 - share:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Learn, look, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--method", default="evergreen")
    parser.add_argument("--valid", action="store_true")
    parser.add_argument("--distillation", type=float, default=EVERGREEN["distillation"])
    parser.add_argument("--max-epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--data", type=Path, default=None)
    options = parser.parse_args()
    graph = api.load(options.dataset, options.data)
    witness = Witness(graph, valid=options.valid)
    changes = {
        "method": witnessed(options.method, witness).name,
        "seed": options.seed,
        "max_epochs": options.max_epochs,
        "distillation": options.distillation,
    }
    Loop(graph, configure(changes, preset="evergreen")).run()
    asked_about = "validation facts" if options.valid else "tests"
    strength = f"distillation {options.distillation:g}"
    title = f"{options.method}, {strength}, {asked_about} of {graph.name}"
    print(f"{title}\n\n{table(witness.asked(), witness.mrr())}")


if __name__ == "__main__":
    main()
