"""Learn with a departure of the paper's published code switched on, to see its effect on a figure.

    python scripts/departures.py DEPARTURE --dataset ENTITY --method re-train --data dataset.zip

select-on-test      the validation facts are the test facts: early stopping selects on test, and
                    what would have been validation facts is known to no filter
select-on-newest    Re-train selects on the newest validation facts alone
values-for-paths    SI takes the values of relations for the path integral of their gradients

Further settings are given as --set NAME=VALUE. The results go to results/departures/.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from lkge import GrowingGraph, Settings, api
from lkge.data.files import write_text_atomically
from lkge.data.snapshots import Facts, Snapshot
from lkge.methods import Method, register
from lkge.methods.retrain import Retrain
from lkge.methods.si import Si
from lkge.models.model import Model

ROOT = Path(__file__).parents[1]


@register
class RetrainOnNewest(Retrain):
    """Re-train that selects its best epoch on V_i instead of V_1 ∪ … ∪ V_i."""

    name: ClassVar[str] = "re-train-on-newest"

    def validation(self, snapshot: Snapshot) -> Facts:
        """V_i."""
        return snapshot.valid


@register
class SiByValues(Si):
    """SI whose relations are held by their values, not by what their paths gained."""

    name: ClassVar[str] = "si-by-values"

    def end(self, model: Model, snapshot: Snapshot) -> None:
        """Ω += max(0, θ_end) / ((θ_end - θ_start)² + ξ) on relations."""
        self._path.relation = model.tables.relation.clone()
        super().end(model, snapshot)


def select_on_test(graph: GrowingGraph, settings: Settings) -> tuple[GrowingGraph, Settings]:
    """Validation facts are the test facts."""
    snapshots = tuple(replace(snapshot, valid=snapshot.test) for snapshot in graph.snapshots)
    return replace(graph, snapshots=snapshots), settings


def select_on_newest(graph: GrowingGraph, settings: Settings) -> tuple[GrowingGraph, Settings]:
    """Only Re-train selects on more than the newest facts."""
    return graph, _instead(settings, Retrain, RetrainOnNewest)


def values_for_paths(graph: GrowingGraph, settings: Settings) -> tuple[GrowingGraph, Settings]:
    """Only SI has paths."""
    return graph, _instead(settings, Si, SiByValues)


def _instead(settings: Settings, method: type[Method], departing: type[Method]) -> Settings:
    if settings.method != method.name:
        raise SystemExit(f"this departure is about {method.name}")
    return replace(settings, method=departing.name)


DEPARTURES = {
    "select-on-test": select_on_test,
    "select-on-newest": select_on_newest,
    "values-for-paths": values_for_paths,
}


def main() -> None:
    """Run one departure and keep its results."""
    options = _options()
    changes = dict(pair.split("=", 1) for pair in options.set)
    settings = Settings(dataset=options.dataset, method=options.method, seed=options.seed)
    settings = settings.with_changes({name: json.loads(text) for name, text in changes.items()})
    graph, settings = DEPARTURES[options.departure](
        api.load(options.dataset, options.data), settings
    )
    results = api.run(graph, settings=settings).results
    name = f"{options.dataset}-{options.method}-{options.departure}-{options.seed}.json"
    options.out.mkdir(parents=True, exist_ok=True)
    tree = json.dumps(results.to_json(), indent=1, allow_nan=False)
    write_text_atomically(options.out / name, tree)
    print(f"{name}: MRR {results.mrr:.4f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("departure", choices=DEPARTURES)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--method", required=True)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "departures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
