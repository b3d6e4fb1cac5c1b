"""GEM: after projection no product with a past gradient is negative, and projections do happen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lkge.methods.gem import Gem, product
from lkge.models.model import Model
from lkge.models.parameters import Gradient
from lkge.testing.graphs import SETTINGS, growing_graph, lessons
from lkge.training.loop import Loop

GRAPH = growing_graph()
GEM = SETTINGS.with_changes({"method": "gem", "memory_size": 20, "max_epochs": 30, "patience": 30})


class Watched(Gem):
    """GEM that writes down, step by step, all products before and after."""

    def __init__(self) -> None:
        super().__init__(GEM)
        self.products: list[tuple[list[float], list[float]]] = []

    def adjust(self, model: Model, gradient: Gradient) -> None:
        slopes = []
        for part in self._parts:
            slope = Gradient.like(model.tables)
            model.loss.add_gradient(model.tables, part, slope)
            slopes.append(slope)
        before = [product(slope, gradient) for slope in slopes]
        super().adjust(model, gradient)
        after = [product(slope, gradient) for slope in slopes]
        self.products.append((before, after))


def test_projected_products_are_not_negative_and_others_are_left_alone() -> None:
    model, method = Model(GEM), Watched()
    projected = 0
    for index in range(3):
        method.products = []
        study(model, method, GRAPH, index)
        for before, after in method.products:
            assert len(before) == index
            if min(before, default=0.0) < 0:
                projected += 1
                assert min(after) >= -1e-6
            else:
                assert after == before
    assert projected > 5


def test_projections_are_counted_and_told() -> None:
    notes = [method.note() for _, _, method in lessons(GRAPH, GEM)]
    assert notes[0] == ""
    for note in notes[1:]:
        words = note.split()
        assert words[0] == "projected"
        assert 0 < int(words[1]) <= int(words[3])
    told = [record.note for record in Loop(GRAPH, GEM).run().results.snapshots]
    assert told == notes


def test_memory_is_divided_by_snapshots() -> None:
    for snapshot, _, method in lessons(GRAPH, replace(GEM, max_epochs=1)):
        assert isinstance(method, Gem)
        since = method.memory.since.tolist()
        assert since.count(snapshot.index) == (20 if snapshot.index == 0 else 10)
        parts = method.memory.parts()
        assert sum(map(len, parts)) == 20
        for index, part in zip(sorted(set(since)), parts, strict=True):
            learned = {tuple(fact) for fact in GRAPH.snapshots[index].train.tolist()}
            assert {tuple(fact) for fact in part.tolist()} <= learned


def test_remembered_facts_share_their_corruptions_as_new_ones_do() -> None:
    model, method = Model(GEM), Gem(replace(GEM, max_epochs=1, negatives_shared_by=8))
    study(model, method, GRAPH, 0)
    method.begin(model, GRAPH.snapshots[0])
    assert [(len(part), part.shared_by) for part in method._parts] == [(40, 8)]


def test_the_product_runs_over_all_tables() -> None:
    model = Model(GEM)
    model.grow(GRAPH.snapshots[0])
    one, other = Gradient.like(model.tables), Gradient.like(model.tables)
    one.entity.values[3, 1], other.entity.values[3, 1] = 2.0, 5.0
    one.relation.values[0, 0], other.relation.values[0, 0] = 3.0, -1.0
    one.entity.values[4, 1] = 9.0
    assert product(one, other) == pytest.approx(7.0)
