"""PNN: what was learned does not change by a bit; what is new learns."""

from __future__ import annotations

from lkge.models.parameters import Parameters
from lkge.testing.graphs import config_for, growing_graph, trained


def test_old_rows_are_frozen_and_new_ones_learn() -> None:
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


def test_without_new_rows_nothing_is_learned() -> None:
    graph = growing_graph(entities=(18, 18, 18), relations=(2, 2, 2))
    config = config_for("pnn")
    tables = [model.tables.clone() for _, model, _ in trained(graph, config)]
    assert tables[0].entity.equal(tables[2].entity)
    assert tables[0].relation.equal(tables[2].relation)
