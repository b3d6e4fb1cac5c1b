"""PNN: what was learned does not change by a bit. CWR: what answers is the mean of all temporary
models, weighted by the facts each has seen."""

from __future__ import annotations

import pytest
import torch

from lkge.methods.architectural import Cwr, merged
from lkge.methods.counts import fact_counts
from lkge.models.parameters import Parameters
from lkge.testing.graphs import config_for, growing_graph, trained

GRAPH = growing_graph()
CWR = config_for("cwr")
ALONE = config_for("snapshot")


def test_pnn_freezes_old_rows_and_new_ones_learn() -> None:
    graph = growing_graph(relations=(2, 3, 4))
    before: Parameters | None = None
    for snapshot, model, _ in trained(graph, config_for("pnn")):
        drawn = model.drawn(snapshot)
        if before is not None:
            for table, old, random in zip(model.tables, before, drawn, strict=True):
                assert table[: len(old)].numpy().tobytes() == old.numpy().tobytes()
                fresh = table[len(old) :]
                assert len(fresh)
                assert (fresh != random[len(old) :]).any(dim=1).all()
        before = model.tables.clone()


def test_without_new_rows_pnn_learns_nothing() -> None:
    graph = growing_graph(entities=(18, 18, 18), relations=(2, 2, 2))
    config = config_for("pnn")
    tables = [model.tables.clone() for _, model, _ in trained(graph, config)]
    assert tables[0].entity.equal(tables[2].entity)
    assert tables[0].relation.equal(tables[2].relation)


@pytest.mark.parametrize("table", ["entity", "relation"])
def test_the_served_row_is_the_weighted_mean_of_the_models_of_each_snapshot(table: str) -> None:
    """Snapshot learns just what CWR's temporary models learn."""
    temporary = [getattr(model.tables, table).clone() for _, model, _ in trained(GRAPH, ALONE)]
    counts = [getattr(fact_counts(each.train, each), table) for each in GRAPH.snapshots]
    for snapshot, model, method in trained(GRAPH, CWR):
        served = getattr(method.inference_parameters(model), table)
        seen = 0
        for row in range(len(served)):
            shares = [
                (float(counts[j][row]), temporary[j][row])
                for j in range(snapshot.index + 1)
                if row < len(counts[j]) and counts[j][row] > 0
            ]
            if shares:
                total = sum(share for share, _ in shares)
                mean = sum((share / total * values for share, values in shares), torch.zeros(8))
                torch.testing.assert_close(served[row], mean, rtol=0, atol=1e-6)
                seen += len(shares) > 1
        assert seen or snapshot.index == 0


def test_a_row_without_new_facts_stays_as_it_is() -> None:
    course = trained(GRAPH, CWR)
    _, model, _ = next(course)
    before = model.tables.entity.clone()
    snapshot, model, _ = next(course)
    idle = fact_counts(snapshot.train, snapshot).entity[: len(before)] == 0
    assert 0 < idle.sum() < len(before)
    assert model.tables.entity[: len(before)][idle].equal(before[idle])
    assert not model.tables.entity[: len(before)][~idle].equal(before[~idle])


def test_the_mean_by_hand() -> None:
    old, new = torch.tensor([[0.0], [4.0], [1.0]]), torch.tensor([[8.0], [8.0], [3.0]])
    assert merged(old, new, torch.tensor([0.25, 0.0, 1.0])).tolist() == [[2.0], [4.0], [3.0]]


def test_only_counts_are_carried() -> None:
    *_, (snapshot, _, method) = trained(GRAPH, CWR)
    assert isinstance(method, Cwr)
    assert method.carried_bytes() == 4 * (snapshot.num_entities + 2 * snapshot.num_relations)
