"""How much of what evergreen would tell of old facts is true, after each snapshot.

    python scripts/told.py --dataset FACT --snapshots 1 --data dataset.zip

All questions that have been answered are asked of the tables that were learned, and of those that
know facts by heart. What they tell (`lkge.methods.parts.retelling`) is compared with the facts,
which this script keeps to that end.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import ClassVar

import numpy as np

from lkge import api
from lkge.config import RunConfig, configure
from lkge.data.snapshots import Snapshot, among, no_facts, with_inverses
from lkge.learning.loop import Loop
from lkge.methods import register
from lkge.methods.evergreen import Evergreen
from lkge.methods.parts.retelling import answerers, told
from lkge.models.model import Model
from lkge.models.predictor import TablePredictor


@register
class Witnessed(Evergreen):
    """Evergreen, and someone who remembers the facts."""

    name: ClassVar[str] = "evergreen-witnessed"

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.facts_so_far = no_facts()

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Compare what is told with what was true."""
        super().end(model, snapshot)
        self.facts_so_far = np.concatenate([self.facts_so_far, with_inverses(snapshot.train)])
        assert self._heart is not None
        everything = np.arange(len(self._profile.counts))
        teller = TablePredictor.of(model.tables, model.score, model.backend)
        candidates = answerers(self._profile, len(model.tables.relation))
        by_model = told(teller, self._profile, everything, candidates)
        by_heart = self._heart.told(self._profile, everything)
        shares = [among(facts, self.facts_so_far).mean() for facts in (by_model, by_heart)]
        print(
            f"snapshot {snapshot.index}: of {len(self.facts_so_far):,} facts the model would tell "
            f"{shares[0]:.1%}, the heart tells {shares[1]:.1%}",
            flush=True,
        )


def main() -> None:
    """Learn some snapshots and look."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--snapshots", type=int, default=None)
    parser.add_argument("--data", type=Path, default=None)
    options = parser.parse_args()
    changes = {name: json.loads(text) for name, text in (p.split("=", 1) for p in options.set)}
    config = configure({**changes, "method": Witnessed.name}, preset="evergreen")
    graph = api.load(options.dataset, options.data)
    few = dataclasses.replace(graph, snapshots=graph.snapshots[: options.snapshots])
    Loop(few, config).run()


if __name__ == "__main__":
    main()
