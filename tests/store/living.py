"""Small living graphs for the tests: a ring of friends that grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lkge.data.formats import Triple
from lkge.living import init
from lkge.store.graph import LivingGraph
from lkge.store.reader import open_reader

QUICK: dict[str, Any] = {"dim": 8, "max_epochs": 4, "batch_size": 32, "seed": 3}


def ring(first: int, last: int, steps: tuple[int, ...] = (1, 2, 5)) -> list[Triple]:
    """Each person from `first` to below `last` knows those some steps further on."""
    size = last - first
    return [
        (f"person {first + k}", f"knows {step}", f"person {first + (k + step) % size}")
        for k in range(size)
        for step in steps
    ]


def bridge(old: int, new: int, count: int) -> list[Triple]:
    """Each of `count` new people knows an old one."""
    return [(f"person {new + k}", "knows 1", f"person {old + k}") for k in range(count)]


def made(folder: Path, **changes: Any) -> LivingGraph:
    """A living graph with 40 people."""
    graph = init(folder, **{**QUICK, **changes})
    graph.add(ring(0, 40), valid=0.2)
    return graph


def bytes_of_version(graph: LivingGraph, version: int) -> dict[str, bytes]:
    """All arrays of a version, whichever files they are in."""
    arrays = open_reader(graph.store.folder, version).contents()
    return {f"{kind}.{n}": a.tobytes() for kind in arrays for n, a in arrays[kind].items()}


def mrr_of(graph: LivingGraph, version: int) -> float:
    """The filtered MRR, among all entities, of the hold-out facts of a version; one at a time."""
    reader, reciprocals = graph.reader, []
    facts = reader.hold_out.facts[reader.hold_out.since == version]
    for subject, relation, object_ in facts.tolist():
        queries = (subject, relation, object_), (object_, relation ^ 1, subject)
        for entity, query_relation, answer in queries:
            scores = np.array(reader.predictor.candidate_scores(entity, query_relation))
            known = reader.answers.of(entity, query_relation, reader.version)
            others = np.delete(scores, np.append(known, answer))
            better, equal = (others > scores[answer]).sum(), (others == scores[answer]).sum()
            reciprocals.append(1 / (1 + better + equal / 2))
    return float(np.mean(reciprocals))
