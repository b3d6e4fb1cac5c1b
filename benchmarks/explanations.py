"""`python -m benchmarks.explanations`: do explanations name the facts that an answer rests on?

Facts of brick are hidden, and a living graph learns the rest. The five known facts with the
greatest weights for each hidden fact (`lkge explain`) are then left out as well, and a new graph
learns what is left; so are, for comparison, as many random facts. The better the explanations, the
worse the hidden facts rank. Results: `results/explanations.md`.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import lkge
from lkge.data.files import write_text_atomically
from lkge.data.formats import Triple
from lkge.store.explaining import known_near
from lkge.store.graph import LivingGraph

RESULTS = Path(__file__).parents[1] / "results"
SEEDS, HIDDEN, REASONS, MIN_DEGREE = (1, 2, 3), 80, 5, 4
SETTINGS = {"dim": 64, "max_epochs": 8}

Chooser = Callable[[LivingGraph, Triple, np.random.Generator], Sequence[Triple]]


def reasons(graph: LivingGraph, fact: Triple, generator: np.random.Generator) -> Sequence[Triple]:
    """The facts that speak most for a fact."""
    return [reason[:3] for reason in graph.explain(*fact, k=REASONS).reasons]


def of_its_entities(
    graph: LivingGraph, fact: Triple, generator: np.random.Generator
) -> Sequence[Triple]:
    """Random facts that share an entity with a fact."""
    return _random(graph, fact, generator, same_relation=False)


def of_its_query(
    graph: LivingGraph, fact: Triple, generator: np.random.Generator
) -> Sequence[Triple]:
    """Random facts that share the relation and an entity with a fact."""
    return _random(graph, fact, generator, same_relation=True)


def _random(
    graph: LivingGraph, fact: Triple, generator: np.random.Generator, same_relation: bool
) -> Sequence[Triple]:
    names = graph.reader.names
    (ids,) = graph.reader.ids_of([fact])
    near = known_near(graph.reader.answers, ids)
    near = near[np.isin(near[:, (0, 2)], ids[[0, 2]]).any(axis=1)]
    near = near[near[:, 1] == ids[1]] if same_relation else near
    chosen = near[generator.permutation(len(near))[:REASONS]]
    return [
        (names.entity_name(s), names.relation_name(r), names.entity_name(o))
        for s, r, o in chosen.tolist()
    ]


LEFT_OUT: Mapping[str, Chooser] = {
    f"the {REASONS} facts with the greatest weights": reasons,
    f"{REASONS} random facts of the same relation and an entity": of_its_query,
    f"{REASONS} random facts of an entity": of_its_entities,
}


def brick() -> list[Triple]:
    """All facts of the embedded graph."""
    graph = lkge.load("brick")
    parts = (part for each in graph.snapshots for part in (each.train, each.valid, each.test))
    return [fact for part in parts for fact in graph.vocabulary.named(part.tolist())]


def hidden_of(facts: Sequence[Triple], generator: np.random.Generator) -> list[Triple]:
    """Random facts whose entities have some others."""
    degree = Counter(name for s, _, o in facts for name in (s, o))
    shuffled = [facts[place] for place in generator.permutation(len(facts))]
    often = (f for f in shuffled if min(degree[f[0]], degree[f[2]]) >= MIN_DEGREE)
    return [fact for fact, _ in zip(often, range(HIDDEN), strict=False)]


def learned(facts: Sequence[Triple], seed: int, folder: Path) -> LivingGraph:
    """A graph that has learned facts; none is held out."""
    graph = lkge.init(folder, seed=seed, **SETTINGS)
    graph.add(facts, valid=0, consolidate=False)
    return graph


def mrr(graph: LivingGraph, facts: Sequence[Triple]) -> float:
    """Of the objects of facts, among entities that are not known answers; 0 without a row."""
    reader, names = graph.reader, graph.reader.names
    reciprocals = []
    for subject, relation, object_ in facts:
        numbers = [names.entity_table.find(name) for name in (subject, object_)]
        if None in numbers:
            reciprocals.append(0.0)
            continue
        (ids,) = reader.ids_of([(subject, relation, object_)])
        scores = reader.predictor.candidate_scores(int(ids[0]), int(ids[1]))
        own = scores[ids[2]]
        known = reader.answers.of(int(ids[0]), int(ids[1]), reader.version)
        reciprocals.append(1 / (1 + int((np.delete(scores, known) > own).sum())))
    return float(np.mean(reciprocals))


def measured(seed: int) -> dict[str, float]:
    """MRR of the hidden facts, by what else is left out."""
    generator, facts = np.random.default_rng(seed), brick()
    hidden = hidden_of(facts, generator)
    with tempfile.TemporaryDirectory() as folder:

        def without(gone: set[Triple], name: str) -> LivingGraph:
            return learned([f for f in facts if f not in gone], seed, Path(folder) / name)

        whole = without(set(hidden), "whole")
        known = [f for f in hidden if None not in map(whole.reader.names.entity_table.find, f[::2])]
        found = {"nothing": mrr(whole, hidden)}
        for number, (name, chooser) in enumerate(LEFT_OUT.items()):
            gone = {fact for each in known for fact in chooser(whole, each, generator)}
            found[name] = mrr(without({*hidden, *gone}, str(number)), hidden)
    return found


def main() -> None:
    runs = [measured(seed) for seed in SEEDS]
    rows = [
        f"| {name} | {np.mean(values):.3f} ±{np.std(values, ddof=1):.3f} |"
        for name in runs[0]
        for values in [[run[name] for run in runs]]
    ]
    lines = [
        "# Do explanations name the facts that an answer rests on?",
        "",
        f"`python -m benchmarks.explanations`: {HIDDEN} facts of brick are hidden, and a graph "
        "learns the rest. Then facts are left out for each hidden fact, and a new graph learns "
        f"what is left. MRR of the hidden facts; mean and deviation of {len(SEEDS)} seeds, "
        f"{SETTINGS['dim']} real numbers for an entity, {SETTINGS['max_epochs']} epochs.",
        "",
        "| also left out | MRR of the hidden facts |",
        "| --- | ---: |",
        *rows,
    ]
    write_text_atomically(RESULTS / "explanations.md", "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
