"""Small growing graphs, each with its own difficulty, and runs that can be watched."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lkge.config import RunConfig
from lkge.configure import configure
from lkge.data.snapshots import GrowingGraph, Snapshot, no_facts
from lkge.data.vocabulary import Vocabulary
from lkge.evaluation.ranking import Validator
from lkge.methods import Method, method_named
from lkge.models.model import Model
from lkge.models.parameters import Parameters
from lkge.models.scores import score_named
from lkge.training.trainer import Trainer

SMALL = dict[str, Any](
    dim=8, batch_size=32, learning_rate=0.01, negatives=4, margin=2.0, max_epochs=3
)
"""Few epochs, and steps large enough to see what a method does."""


def paper_config(**changes: Any) -> RunConfig:
    """The preset `paper` with some settings changed."""
    return configure(changes, "paper")


def config_for(method: str, score: str = "transe", **changes: Any) -> RunConfig:
    """`SMALL` for a method and a score; rows have as many coordinates, real or complex."""
    dim = SMALL["dim"] * score_named(score).reals
    config = paper_config(**{**SMALL, "method": method, "score": score, "dim": dim})
    if config.has("regularization_weight"):
        config = config.with_changes(regularization_weight=0.1)
    return config.with_changes(changes)


def growing_graph(
    entities: tuple[int, ...] = (18, 24, 30), relations: tuple[int, ...] = (2, 3, 3), seed: int = 0
) -> GrowingGraph:
    """Distinct random facts, 40 a snapshot, divided 3:1:1. Every new entity has a training fact."""
    generator = np.random.default_rng(seed)
    known: set[tuple[int, int, int]] = set()
    snapshots = []
    for index, (num_entities, num_relations) in enumerate(zip(entities, relations, strict=True)):
        newest = range(entities[index - 1] if index else 0, num_entities)
        subjects = [*newest, *generator.integers(0, num_entities, 200).tolist()]
        facts: list[tuple[int, int, int]] = []
        for s in subjects:
            relation = 2 * int(generator.integers(num_relations))
            fact = (int(s), relation, int(generator.integers(num_entities)))
            if fact not in known and len(facts) < 40:
                known.add(fact)
                facts.append(fact)
        train, valid, test = np.split(np.array(facts, dtype=np.int32), [24, 32])
        snapshots.append(Snapshot(index, train, valid, test, num_entities, num_relations))
    return made_of(*snapshots)


def made_of(*snapshots: Snapshot) -> GrowingGraph:
    """A graph of these snapshots, with made names."""
    last = snapshots[-1]
    entities = [f"entity {k}" for k in range(last.num_entities)]
    relations = [f"relation {k}" for k in range(last.num_relations)]
    return GrowingGraph("made", Vocabulary(entities, relations), snapshots)


def with_second(graph: GrowingGraph, **changes: Any) -> GrowingGraph:
    """The graph with other facts in its second snapshot."""
    first, second, *rest = graph.snapshots
    return made_of(first, replace(second, **changes), *rest)


def difficult_graphs() -> dict[str, GrowingGraph]:
    """One graph for each thing that growth may do."""
    graph = growing_graph()
    second = graph.snapshots[1]
    return {
        "plain": graph,
        "no new entity": growing_graph(entities=(18, 18, 18), relations=(2, 2, 2)),
        "one fact": with_second(graph, train=second.train[:1], valid=no_facts(), test=no_facts()),
        "no training fact": with_second(graph, train=no_facts()),
        "empty valid": with_second(graph, valid=no_facts()),
        "empty test": with_second(graph, test=no_facts()),
        "one snapshot": made_of(graph.snapshots[0]),
    }


def method_of(config: RunConfig) -> Method:
    """A new method with these settings."""
    return method_named(config.method.name)(config)


def train_snapshot(
    model: Model, method: Method, graph: GrowingGraph, index: int, with_tests: bool = False
) -> None:
    """Train one snapshot. `with_tests` leaves its test facts where a hook could see them; the loop
    removes them."""
    snapshot = graph.snapshots[index]
    if not with_tests:
        snapshot = replace(snapshot, test=no_facts())
    Trainer(model, method, snapshot, Validator(graph.snapshots[: index + 1])).run()


def trained(
    graph: GrowingGraph, config: RunConfig, with_tests: bool = False
) -> Iterator[tuple[Snapshot, Model, Method]]:
    """Model and method after each snapshot."""
    model, method = Model(config), method_of(config)
    for index, snapshot in enumerate(graph.snapshots):
        train_snapshot(model, method, graph, index, with_tests)
        yield snapshot, model, method


def bytes_of(tables: Parameters) -> bytes:
    """All rows, to compare bit for bit."""
    return b"".join(table.numpy().tobytes() for table in tables)


def course_of(graph: GrowingGraph, config: RunConfig) -> list[bytes]:
    """The served tables after each snapshot."""
    course = trained(graph, config)
    return [bytes_of(method.inference_parameters(model)) for _, model, method in course]
