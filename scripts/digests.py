"""Digests of what is learned: whether a change of the code changes a byte of it.

    python scripts/digests.py > before.json      (on one version)
    python scripts/digests.py > after.json       (on another, on the same machine)

With two threads: the default run rounds otherwise with one.

The runs: the default on brick; every other method for two epochs; the default living
graph, and one of LKGE for five epochs, with three adds and two retractions. State tensors
are compared by value, not by name.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lkge
from lkge.configure import configure
from lkge.data.formats import Triple
from lkge.data.snapshots import Facts, GrowingGraph
from lkge.methods import known_methods
from lkge.training.loop import Loop


def digest(array: NDArray[Any]) -> str:
    """The first 16 digits of SHA-256 of the bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def digests(arrays: Iterable[NDArray[Any]]) -> list[str]:
    """A digest of each, sorted."""
    return sorted(digest(array) for array in arrays)


def of_run(graph: GrowingGraph, **changes: Any) -> dict[str, Any]:
    """Digests of a run, and its MRR."""
    learned = Loop(graph, configure({"dataset": graph.name, **changes})).run()
    protocols = learned.results.protocols
    return {
        "tensors": digests(tensor.numpy() for tensor in learned.tensors().values()),
        "mrr": {name: protocols[name].final.mrr for name in protocols},
    }


def of_living(graph: GrowingGraph, folder: Path, **changes: Any) -> list[str]:
    """Digests of a living graph after three adds and two retractions."""
    kg = lkge.init(folder, **changes)
    first, second, third = (snapshot.train for snapshot in graph.snapshots[:3])
    for added, gone in ((first, []), (second, []), (third, first[:5]), ([], second[:3])):
        kg.add(named(graph, added), retract=named(graph, gone))
    return digests(kg.reader.model_arrays.values())


def named(graph: GrowingGraph, facts: Facts | list[Any]) -> list[Triple]:
    """Facts by name."""
    names = graph.vocabulary
    return [(names.entities[s], names.relations[r // 2], names.entities[o]) for s, r, o in facts]


def main() -> None:
    """Print all digests as JSON."""
    graph = lkge.load("brick")
    found: dict[str, Any] = {"default": of_run(graph)}
    for method in sorted(set(known_methods()) - {"evergreen"}):
        found[method] = of_run(graph, method=method, max_epochs=2)
    with tempfile.TemporaryDirectory() as folder:
        found["living default"] = of_living(graph, Path(folder) / "default")
        found["living lkge"] = of_living(graph, Path(folder) / "lkge", method="lkge", max_epochs=5)
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
