"""Learn with departures of the paper's published code switched on, to see their effect on a figure.

    python scripts/departures.py DEPARTURE --dataset ENTITY --method re-train --data dataset.zip

select-on-test            the validation facts are the test facts: early stopping selects on test,
                          and what would have been validation facts is known to no filter
select-on-newest          Re-train selects on the newest validation facts alone
values-for-paths          SI takes the values of relations for the path integral of their gradients
values-for-slopes         SI takes the values of relations for their gradients, step by step
signed-values-for-slopes  the same, and what relations lose by it counts as well as what they gain
strong-damping            SI with ξ = 0.1 instead of 0.001, as other code has it
slipped-average           EWC's mean over snapshots lacks its brackets, as we read it
from-new-facts            LKGE's autoencoder rebuilds rows without x_{i-1}, those without new facts
                          as zero, as we read it, and entities through a ReLU
project-over-neighbours   MEAN and LAN sum their projection over neighbours, not over coordinates
project-over-batch        MEAN sums it over the neighbours of all that is encoded together
project-over-first        the same, but that the sums of D_1 hold for what comes later

Several are joined by +, as in select-on-test+values-for-slopes, and apply in turn. Further settings
are given as --set NAME=VALUE, with a --label for the name of the file. The results go to
results/departures/.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from departing import (
    EwcBySlip,
    LkgeFromNewFacts,
    RetrainOnNewest,
    SiBySignedValueSteps,
    SiByValues,
    SiByValueSteps,
)
from departing_inductive import (
    LanOverNeighbours,
    MeanOverBatch,
    MeanOverFirst,
    MeanOverNeighbours,
)

from lkge import GrowingGraph, RunConfig, api
from lkge.data.files import write_text_atomically
from lkge.methods import Method
from lkge.testing import paper_config

ROOT = Path(__file__).parents[1]
Departed = tuple[GrowingGraph, RunConfig]
Departure = Callable[[GrowingGraph, RunConfig], Departed]


def select_on_test(graph: GrowingGraph, config: RunConfig) -> Departed:
    """Validation facts are the test facts."""
    snapshots = tuple(replace(snapshot, valid=snapshot.test) for snapshot in graph.snapshots)
    return replace(graph, snapshots=snapshots), config


def instead(systems: Mapping[str, type[Method]]) -> Departure:
    """A departing system in place of the one of that name."""

    def departed(graph: GrowingGraph, config: RunConfig) -> Departed:
        if config.method.name not in systems:
            about = " and ".join(systems)
            raise SystemExit(f"a departure about {about} does not apply to {config.method.name}")
        return graph, config.with_changes(method=systems[config.method.name].name)

    return departed


def strong_damping(graph: GrowingGraph, config: RunConfig) -> Departed:
    """ξ = 0.1, a value in wide use: what hardly moved is then hardly held."""
    if not config.has("damping"):
        raise SystemExit(f"a departure about si does not apply to {config.method.name}")
    return graph, config.with_changes(damping=0.1)


DEPARTURES: Mapping[str, Departure] = {
    "select-on-test": select_on_test,
    "select-on-newest": instead({"re-train": RetrainOnNewest}),
    "values-for-paths": instead({"si": SiByValues}),
    "values-for-slopes": instead({"si": SiByValueSteps}),
    "signed-values-for-slopes": instead({"si": SiBySignedValueSteps}),
    "strong-damping": strong_damping,
    "slipped-average": instead({"ewc": EwcBySlip}),
    "from-new-facts": instead({"lkge": LkgeFromNewFacts}),
    "project-over-neighbours": instead({"mean": MeanOverNeighbours, "lan": LanOverNeighbours}),
    "project-over-batch": instead({"mean": MeanOverBatch}),
    "project-over-first": instead({"mean": MeanOverFirst}),
}


def departed(departures: str, graph: GrowingGraph, config: RunConfig) -> Departed:
    """The graph and the settings after each of the departures, which + joins."""
    for name in departures.split("+"):
        graph, config = DEPARTURES[name](graph, config)
    return graph, config


def main() -> None:
    """Run with the departures and keep the results."""
    options = _options()
    changes = dict(pair.split("=", 1) for pair in options.set)
    config = paper_config(dataset=options.dataset, method=options.method, seed=options.seed)
    config = config.with_changes({name: json.loads(text) for name, text in changes.items()})
    graph = api.load(options.dataset, options.data)
    graph, config = departed(options.departures, graph, config)
    results = api.run(graph, config=config).results
    parts = options.dataset, options.method, options.label, options.departures, options.seed
    name = "-".join(str(part) for part in parts if part) + ".json"
    options.out.mkdir(parents=True, exist_ok=True)
    tree = json.dumps(results.to_json(), indent=1, allow_nan=False)
    write_text_atomically(options.out / name, tree)
    print(f"{name}: MRR {results.mrr:.4f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("departures", type=_known, metavar="DEPARTURE[+DEPARTURE…]")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--label", default="")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--method", required=True)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "departures")
    return parser.parse_args()


def _known(departures: str) -> str:
    """The departures, if there are such."""
    for name in departures.split("+"):
        if name not in DEPARTURES:
            known = ", ".join(DEPARTURES)
            raise argparse.ArgumentTypeError(f"there is no {name!r}; known are: {known}")
    return departures


if __name__ == "__main__":
    main()
