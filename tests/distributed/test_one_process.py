"""Training by partitions in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.distributed.workers import GRAPH, config, ignore
from tests.training.made import made_graph, quick, single_threaded

import lkge
from lkge import sizing
from lkge.backends import backend_for
from lkge.configure import configure
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import with_inverses
from lkge.distributed.group import Workers
from lkge.distributed.loop import with_partitions
from lkge.distributed.ranking import ShardedPredictor
from lkge.distributed.shards import TABLE, Shards
from lkge.errors import SettingsError
from lkge.models.parameters import Parameters
from lkge.models.predictor import TablePredictor, View
from lkge.models.scores import score_of
from lkge.sizing import Size, bytes_of_tables, partitions


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("name", ["complex", "transe"])
def test_ranks_are_those_of_a_whole_table(name: str, backend: str) -> None:
    graph = made_graph()
    sizes = [snapshot.num_entities for snapshot in graph.snapshots]
    run = config(score=name, partitions=6)
    shards = Shards(run, sizes, Workers())
    for snapshot in graph.snapshots:
        shards.grow(snapshot)
    for rows in shards.here.values():
        rows[TABLE] = rows[TABLE].mul(4).round()  # many ties
    whole = torch.empty(sizes[-1], run.model.dim)
    shards.assemble(TABLE, whole)
    relation = torch.ones(2 * graph.snapshots[-1].num_relations, run.model.dim)
    parts: Any = score_of(run), backend_for(backend, "cpu")
    sharded = ShardedPredictor(
        shards=shards, name=TABLE, relation=relation, score=parts[0], backend=parts[1]
    )
    table = TablePredictor.of(Parameters(whole, relation), *parts)
    known = KnownFacts.build([np.concatenate(each.parts) for each in graph.snapshots])
    facts = with_inverses(np.concatenate([each.test for each in graph.snapshots]))
    facts = facts[(facts[:, (0, 2)] < sizes[1]).all(axis=1)]
    views = [View(sizes[1], 1), View(sizes[2], 2)]
    found = sharded.ranks(facts, views, known)
    assert np.array_equal(found, table.ranks(facts, views, known))
    assert found.max() > found.min()


def test_dealing_anew_moves_rows_and_changes_none() -> None:
    shards = Shards(config(), [GRAPH.snapshots[0].num_entities], Workers())
    shards.grow(GRAPH.snapshots[0])
    shards.begin(carries_sums=True, averages=True)
    before, after = torch.empty(2, shards.entities, 8)
    shards.assemble(TABLE, before)
    places = shards.partition.places
    shards.deal(0, 1)
    shards.assemble(TABLE, after)
    assert not np.array_equal(places, shards.partition.places)
    assert torch.equal(before, after)


@pytest.mark.parametrize("method", ["re-train", "fine-tune", "snapshot"])
def test_baselines_learn_by_partitions_and_the_folder_answers(tmp_path: Path, method: str) -> None:
    run = quick(
        method,
        loss="softmax",
        optimizer="adagrad",
        score="complex",
        learning_rate=0.3,
        partitions=4,
    )
    with single_threaded():
        done = lkge.run(GRAPH, out=tmp_path / "run", config=run, listener=ignore)
    again = lkge.resume(tmp_path / "run")
    assert len(done.results.snapshots) == len(GRAPH)
    assert not (tmp_path / "run" / "checkpoint").exists()
    asked = "entity 0", "relation 0"
    assert list(done.predictor.top_k(*asked, 5)) == list(again.predictor.top_k(*asked, 5))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"partitions": 3}, "must be even"),
        ({"memory": "generative"}, "method.memory = 'facts'"),
        ({"transfer": True}, "method.transfer = false"),
        ({"optimizer": "adam"}, "it has adagrad"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        with_partitions(config(**changes), GRAPH, Size(24, 72), Workers())


def test_a_method_on_whole_tables_is_refused() -> None:
    run = quick("ewc", optimizer="adagrad", partitions=4)
    with pytest.raises(SettingsError, match="ewc works on whole tables"):
        with_partitions(run, GRAPH, Size(24, 72), Workers())


def test_partitions_need_a_folder_and_are_not_for_living_graphs() -> None:
    with pytest.raises(SettingsError, match="give a run folder"):
        lkge.run(GRAPH, config=config(), listener=ignore)
    with pytest.raises(SettingsError, match="no effect in a living graph"):
        configure({"partitions": 4}, living=True)


def test_partitions_follow_from_size_and_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    run = configure({})
    size = Size(10**6, 10**7)
    needed = bytes_of_tables(run, size.entities)
    monkeypatch.setattr(sizing, "memory_of_machine", lambda: 2 * needed)
    assert partitions(run, size) == 0
    assert partitions(run, size, workers=3) == 6
    for memory in (needed, needed // 3):
        monkeypatch.setattr(sizing, "memory_of_machine", lambda memory=memory: memory)
        number = partitions(run, size)
        assert number % 2 == 0
        assert 2 * needed / number <= memory / 8
    assert partitions(run.with_changes({"partitions": 10}), size) == 10


def test_brick_is_learned_about_as_well(tmp_path: Path) -> None:
    """The first snapshots of the graph that comes with the package."""
    graph = lkge.load("brick")
    found = {}
    for number in (0, 4):
        out = tmp_path / str(number)
        changes: dict[str, Any] = {"dim": 32, "partitions": number, "max_epochs": 8}
        changes |= {"memory": "facts", "transfer": False}
        done = lkge.run(graph, out=out, listener=ignore, **changes)
        found[number] = done.results.mrr
    assert found[4] > 0.9 * found[0], found
