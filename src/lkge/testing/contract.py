"""What every registered method owes, as functions of its settings. Each raises `ContractBroken`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from lkge.config import RunConfig
from lkge.data.snapshots import GrowingGraph, no_facts
from lkge.methods import method_named
from lkge.models.model import Model
from lkge.models.scores import SCORES
from lkge.testing.graphs import (
    bytes_of,
    course_of,
    difficult_graphs,
    growing_graph,
    lessons,
    made_of,
    settings_for,
    study,
)
from lkge.training.loop import Loop
from lkge.training.trainer import restored

GRAPH = growing_graph()


class ContractBroken(AssertionError):
    """A method does not do what it owes; the message says what."""


def learns_any_growth(config: RunConfig) -> None:
    """Whatever a snapshot brings, everything has a finite row, and every query is ranked."""
    for kind, graph in difficult_graphs().items():
        for snapshot, model, method in lessons(graph, config):
            for tables in (model.tables, method.served(model)):
                _require(
                    len(tables.entity) == snapshot.num_entities
                    and len(tables.relation) == 2 * snapshot.num_relations,
                    f"on a graph with {kind!r} not everything has a row",
                )
                _require(
                    all(bool(torch.isfinite(table).all()) for table in tables),
                    f"on a graph with {kind!r} a row is not finite",
                )
        _require_complete(graph, config, kind)


def _require_complete(graph: GrowingGraph, config: RunConfig, kind: str) -> None:
    for protocol in Loop(graph, config).run().results.protocols.values():
        for row in protocol.matrix:
            for cell, snapshot in zip(row, graph.snapshots, strict=False):
                _require(
                    cell.queries == 2 * len(snapshot.test),
                    f"on a graph with {kind!r} not every query is counted",
                )
        _require(0 < protocol.final.mrr <= 1, f"on a graph with {kind!r} there is no MRR")


def is_its_hooks(config: RunConfig) -> None:
    """The loop learns just what the hooks, called in their order, learn."""
    learned = Loop(GRAPH, config).run()
    _require(
        bytes_of(learned.tables) == course_of(GRAPH, config)[-1],
        "the loop and the hooks learn different tables",
    )


def learns(config: RunConfig) -> None:
    """Training changes the tables."""
    untrained, trained = Model(config), Model(config)
    method_named(config.method.name)(config).grow(untrained, GRAPH.snapshots[0])
    study(trained, method_named(config.method.name)(config), GRAPH, 0)
    _require(bytes_of(trained.tables) != bytes_of(untrained.tables), "training changes nothing")


def follows_its_seed(config: RunConfig) -> None:
    """The seed decides every byte."""
    once, again, other = (course_of(GRAPH, replace(config, seed=seed)) for seed in (1, 1, 2))
    _require(once == again, "the same seed gives different tables")
    _require(
        all(one != another for one, another in zip(once, other, strict=True)),
        "different seeds give the same tables",
    )


def is_blind_to_tests(config: RunConfig) -> None:
    """Test facts have no part in learning."""
    blind = made_of(*(replace(snapshot, test=no_facts()) for snapshot in GRAPH.snapshots))
    seen, unseen = (Loop(graph, config).run().tables for graph in (GRAPH, blind))
    _require(bytes_of(seen) == bytes_of(unseen), "test facts change what is learned")


def declares_what_it_carries(config: RunConfig) -> None:
    """With all but its tables and its `state` forgotten, a method goes on to the same bytes."""
    for index in (1, 2):
        course = lessons(GRAPH, config)
        for _ in range(index):
            _, model, method = next(course)
        state = {key: tensor.clone() for key, tensor in method.state().items()}
        heir = method_named(config.method.name)(config)
        heir.load_state(state)
        successor = Model(config)
        successor.tables = model.tables.clone()
        size = sum(len(tensor.numpy().tobytes()) for tensor in state.values())
        _require(
            heir.carried_bytes() == method.carried_bytes() == size,
            "the size of what is carried is wrong",
        )
        study(successor, heir, GRAPH, index)
        _, model, method = next(course)
        _require(
            bytes_of(successor.tables) == bytes_of(model.tables)
            and bytes_of(heir.served(successor)) == bytes_of(method.served(model)),
            "something is carried that `state` does not declare",
        )
        mine, theirs = heir.state(), method.state()
        _require(
            mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine),
            "`state` differs after `load_state`",
        )


def answers_when_restored(config: RunConfig) -> None:
    """What was saved answers as what was learned."""
    learned = Loop(GRAPH, config).run()
    model, method = restored(config, learned.tensors())
    mine, theirs = (
        p.with_names(GRAPH.vocabulary) for p in (learned.predictor, method.predictor(model))
    )
    for relation in GRAPH.vocabulary.relations:
        _require(
            mine.top_k("entity 0", relation, 30) == theirs.top_k("entity 0", relation, 30),
            "a restored model gives other answers",
        )


def carries_rows_if_it_says_so(config: RunConfig) -> None:
    """All that a `rowwise` method has learned is a row for each entity and relation."""
    if not method_named(config.method.name)(config).rowwise:
        return
    for _, model, method in lessons(GRAPH, config):
        _require(not model.tables.extra, "a rowwise method learns more than rows")
        for name, rows in method.state().items():
            kind = name.rpartition(".")[2]
            _require(
                kind in ("entity", "relation") and len(rows) == len(getattr(model.tables, kind)),
                f"a rowwise method carries {name!r}, which does not have a row for each",
            )


def can_retract(config: RunConfig) -> None:
    """With facts withdrawn that it has learned, a method goes on to finite rows."""
    course = lessons(GRAPH, config)
    _, model, method = next(course)
    method.retract(GRAPH.snapshots[0].train[:5])
    _, model, method = next(course)
    _require(
        all(bool(torch.isfinite(table).all()) for table in model.tables),
        "after a retraction a row is not finite",
    )


def learns_alike_on_both_backends(config: RunConfig) -> None:
    """Kernels and torch agree within what rounding does in a few steps, which is far less than
    what learning does."""
    gentle = replace(config, max_epochs=2, learning_rate=0.001)
    fused, plain = (
        [model.tables.clone() for _, model, _ in lessons(GRAPH, replace(gentle, backend=backend))]
        for backend in ("numba", "torch")
    )
    for mine, twin in zip(fused, plain, strict=True):
        for table, other in zip(mine, twin, strict=True):
            _require(
                torch.allclose(table, other, rtol=0, atol=1e-4),
                "the backends learn different tables",
            )


CHECKS: tuple[Callable[[RunConfig], None], ...] = (
    learns_any_growth,
    is_its_hooks,
    learns,
    follows_its_seed,
    is_blind_to_tests,
    declares_what_it_carries,
    answers_when_restored,
    carries_rows_if_it_says_so,
    can_retract,
    learns_alike_on_both_backends,
)


def check_method(name: str) -> None:
    """All checks of a registered method, with every score function."""
    for score in SCORES:
        for check in CHECKS:
            check(settings_for(name, score))


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise ContractBroken(complaint)
