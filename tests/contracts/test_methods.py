"""What every registered method owes, and what defines each of the first four."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.contracts.small_graphs import (
    SETTINGS,
    bytes_of,
    course_of,
    difficult_graphs,
    growing_graph,
    lessons,
    made_of,
    study,
)

from lkge.config import Settings
from lkge.data.snapshots import no_facts
from lkge.learning.loop import Loop
from lkge.methods import METHODS, method_named
from lkge.models.model import Model
from lkge.models.tables import Tables

GRAPH = growing_graph()
GRAPHS = difficult_graphs()
EVERY_METHOD = pytest.mark.parametrize("name", sorted(METHODS))


def settings_for(name: str, **changes: object) -> Settings:
    return SETTINGS.with_changes({"method": name, **changes})


def snapshot_bytes(tables: Tables, entities: int, relations: int) -> bytes:
    """The first rows of the tables."""
    return bytes_of(Tables(tables.entity[:entities], tables.relation[:relations]))


@EVERY_METHOD
@pytest.mark.parametrize("kind", GRAPHS)
def test_learns_any_growth_and_has_a_finite_row_for_everything(name: str, kind: str) -> None:
    for snapshot, model, method in lessons(GRAPHS[kind], settings_for(name)):
        for tables in (model.tables, method.served(model)):
            assert tables.entity.shape == (snapshot.num_entities, 8)
            assert tables.relation.shape == (2 * snapshot.num_relations, 8)
            assert all(torch.isfinite(table).all() for table in tables)


@EVERY_METHOD
@pytest.mark.parametrize("kind", GRAPHS)
def test_a_run_of_any_growth_is_evaluated(name: str, kind: str) -> None:
    graph = GRAPHS[kind]
    learned = Loop(graph, settings_for(name)).run()
    for protocol in learned.results.protocols.values():
        assert [len(row) for row in protocol.matrix] == list(range(1, len(graph) + 1))
        for row in protocol.matrix:
            for cell, snapshot in zip(row, graph.snapshots, strict=False):
                assert cell.queries == 2 * len(snapshot.test)
                assert not cell.queries or 0 < cell.mrr <= 1
        assert len(protocol.forward) == len(graph) - 1
        assert 0 < protocol.final.mrr <= 1


@EVERY_METHOD
def test_the_loop_and_the_hooks_learn_the_same(name: str) -> None:
    learned = Loop(GRAPH, settings_for(name)).run()
    assert bytes_of(learned.tables) == course_of(GRAPH, settings_for(name))[-1]


@EVERY_METHOD
def test_training_changes_the_tables(name: str) -> None:
    settings = settings_for(name)
    model, method = Model(settings), method_named(name)(settings)
    first = GRAPH.snapshots[0]
    study(model, method, GRAPH, 0)
    assert bytes_of(model.tables) != bytes_of(Model(settings).drawn(first))


@EVERY_METHOD
def test_the_seed_decides_every_byte(name: str) -> None:
    once, again, other = (course_of(GRAPH, settings_for(name, seed=seed)) for seed in (1, 1, 2))
    assert once == again
    assert all(one != another for one, another in zip(once, other, strict=True))


@EVERY_METHOD
def test_test_facts_have_no_part_in_learning(name: str) -> None:
    blind = made_of(*(replace(snapshot, test=no_facts()) for snapshot in GRAPH.snapshots))
    assert course_of(blind, settings_for(name)) == course_of(GRAPH, settings_for(name))
    seen, unseen = (Loop(graph, settings_for(name)).run().tables for graph in (GRAPH, blind))
    assert bytes_of(seen) == bytes_of(unseen)


@EVERY_METHOD
@pytest.mark.parametrize("index", [1, 2])
def test_tables_and_state_are_all_that_is_carried(name: str, index: int) -> None:
    """A method that has forgotten all but its declared state goes on to the same bytes."""
    settings = settings_for(name)
    course = lessons(GRAPH, settings)
    for _ in range(index):
        _, model, method = next(course)
    restored, heir = Model(settings), method_named(name)(settings)
    restored.tables = model.tables.clone()
    heir.load_state({key: tensor.clone() for key, tensor in method.state().items()})
    assert heir.carried_bytes() == method.carried_bytes()
    study(restored, heir, GRAPH, index)
    _, model, method = next(course)
    assert bytes_of(restored.tables) == bytes_of(model.tables)
    assert bytes_of(heir.served(restored)) == bytes_of(method.served(model))
    mine, theirs = heir.state(), method.state()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)


@EVERY_METHOD
def test_what_is_carried_is_measured(name: str) -> None:
    for _, _, method in lessons(GRAPH, settings_for(name)):
        size = sum(len(tensor.numpy().tobytes()) for tensor in method.state().values())
        assert method.carried_bytes() == size
    recorded = Loop(GRAPH, settings_for(name)).run().results.snapshots[-1].carried_bytes
    assert recorded == size


@EVERY_METHOD
def test_both_backends_learn_the_same(name: str) -> None:
    """Within what rounding does in a few steps, which is far less than what learning does."""
    settings = settings_for(name, max_epochs=2, learning_rate=0.001)
    fused, plain = (
        [model.tables.clone() for _, model, _ in lessons(GRAPH, replace(settings, backend=backend))]
        for backend in ("numba", "torch")
    )
    for mine, twin in zip(fused, plain, strict=True):
        for table, other in zip(mine, twin, strict=True):
            torch.testing.assert_close(table, other, rtol=0, atol=1e-4)


def test_lkge_at_strength_zero_is_fine_tune() -> None:
    fine_tune = course_of(GRAPH, settings_for("fine-tune"))
    off = settings_for("lkge", alpha=0.0, beta=0.0, transfer=False)
    assert course_of(GRAPH, off) == fine_tune
    switched = settings_for("lkge", regularization=False, autoencoder=False, transfer=False)
    assert course_of(GRAPH, switched) == fine_tune


@pytest.mark.parametrize(
    "only",
    [{"alpha": 0.1}, {"beta": 0.1}, {"transfer": True}],
    ids=lambda only: next(iter(only)),
)
def test_each_part_of_lkge_makes_it_differ_from_fine_tune(only: dict[str, object]) -> None:
    nothing = {"alpha": 0.0, "beta": 0.0, "transfer": False}
    some = course_of(GRAPH, settings_for("lkge", **nothing | only))
    none = course_of(GRAPH, settings_for("fine-tune"))
    assert (some[0] == none[0]) == ("beta" not in only)
    assert some[1] != none[1]


def test_lkge_at_default_strength_differs_from_fine_tune() -> None:
    ours = course_of(GRAPH, settings_for("lkge", alpha=Settings().alpha, beta=Settings().beta))
    theirs = course_of(GRAPH, settings_for("fine-tune"))
    assert all(mine != other for mine, other in zip(ours, theirs, strict=True))


def test_regularization_holds_old_rows() -> None:
    """The stronger it is, the less the rows of the first snapshot move in the second."""
    moves = []
    for alpha in (0.0, 0.1, 10.0):
        course = lessons(GRAPH, settings_for("lkge", alpha=alpha, beta=0.0, transfer=False))
        before = next(course)[1].tables.entity.clone()
        after = next(course)[1].tables.entity[: len(before)]
        moves.append(float((after - before).square().sum()))
    assert moves[0] > moves[1] > moves[2]


def test_lkge_without_fine_tuning_only_transfers() -> None:
    settings = settings_for("lkge", fine_tuning=False)
    first, *later = lessons_by_copy(settings)
    entities, relations = 18, 4
    for tables in later:
        assert snapshot_bytes(tables, entities, relations) == bytes_of(first)
    full, *_ = lessons_by_copy(settings_for("lkge"))
    assert bytes_of(full) == bytes_of(first)

    model, method = Model(settings), method_named("lkge")(settings)
    model.tables = first.clone()
    method.grow(model, GRAPH.snapshots[1])
    assert bytes_of(later[0]) == bytes_of(model.tables)
    assert Loop(GRAPH, settings).run().results.snapshots[1].epochs == 0


def lessons_by_copy(settings: Settings) -> list[Tables]:
    """The tables after each snapshot."""
    return [model.tables.clone() for _, model, _ in lessons(GRAPH, settings)]


def test_on_the_first_snapshot_three_methods_are_one() -> None:
    first = made_of(GRAPH.snapshots[0])
    outcomes = {
        name: course_of(first, settings_for(name)) for name in ("re-train", "snapshot", "fine-tune")
    }
    assert outcomes["re-train"] == outcomes["snapshot"] == outcomes["fine-tune"]


def test_on_the_second_snapshot_they_are_three() -> None:
    outcomes = [
        course_of(GRAPH, settings_for(name))[1] for name in ("re-train", "snapshot", "fine-tune")
    ]
    assert len(set(outcomes)) == 3


def test_retrain_keeps_all_facts() -> None:
    for snapshot, _, method in lessons(GRAPH, settings_for("re-train")):
        so_far = GRAPH.snapshots[: snapshot.index + 1]
        for split in ("train", "valid"):
            kept = method.state()[split].numpy()
            facts = np.concatenate([getattr(past, split) for past in so_far])
            assert kept.tolist() == facts.tolist()


def test_snapshot_ignores_the_past() -> None:
    """Whatever the first snapshot taught, the second is learned alike. Its validation set is empty
    here, for earlier facts do have a part in filtering."""
    first, second, _ = GRAPH.snapshots
    other = growing_graph(seed=1).snapshots[0]
    assert other.train.tolist() != first.train.tolist()
    second = replace(second, valid=no_facts())
    courses = {
        name: [course_of(made_of(past, second), settings_for(name)) for past in (first, other)]
        for name in ("snapshot", "fine-tune")
    }
    (mine, yours), (heir, other_heir) = courses["snapshot"], courses["fine-tune"]
    assert mine[0] != yours[0]
    assert mine[1] == yours[1]
    assert heir[1] != other_heir[1]
