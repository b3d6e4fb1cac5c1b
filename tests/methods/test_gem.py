"""GEM: after projection no product with a past gradient is negative, and projections do happen."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lkge.methods.memory import Gem, Matrix, Vector, cone_weights, product
from lkge.models.model import Model
from lkge.models.parameters import Gradient
from lkge.testing.graphs import config_for, growing_graph, train_snapshot, trained
from lkge.training.loop import Loop

GRAPH = growing_graph()
GEM = config_for("gem", memory_size=20, max_epochs=30, patience=30)


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
        train_snapshot(model, method, GRAPH, index)
        for before, after in method.products:
            assert len(before) == index
            if min(before, default=0.0) < 0:
                projected += 1
                assert min(after) >= -1e-6
            else:
                assert after == before
    assert projected > 5


def test_projections_are_counted_and_reported() -> None:
    notes = [method.note() for _, _, method in trained(GRAPH, GEM)]
    assert notes[0] == ""
    for note in notes[1:]:
        words = note.split()
        assert words[0] == "projected"
        assert 0 < int(words[1]) <= int(words[3])
    reported = [record.note for record in Loop(GRAPH, GEM).run().results.snapshots]
    assert reported == notes


def test_memory_is_divided_by_snapshots() -> None:
    for snapshot, _, method in trained(GRAPH, GEM.with_changes(max_epochs=1)):
        assert isinstance(method, Gem)
        since = method.memory.since.tolist()
        assert since.count(snapshot.index) == (20 if snapshot.index == 0 else 10)
        parts = method.memory.parts()
        assert sum(map(len, parts)) == 20
        for index, part in zip(sorted(set(since)), parts, strict=True):
            learned = {tuple(fact) for fact in GRAPH.snapshots[index].train.tolist()}
            assert {tuple(fact) for fact in part.tolist()} <= learned


def test_remembered_facts_share_their_corruptions_as_new_ones_do() -> None:
    model, method = Model(GEM), Gem(GEM.with_changes(max_epochs=1, negatives_shared_by=8))
    train_snapshot(model, method, GRAPH, 0)
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


def by_trying_all(rows: Matrix, vector: Vector) -> Vector:
    """Of all sets of rows that may be tight, the feasible projection that is nearest."""
    best = np.zeros_like(vector) if (rows @ np.zeros_like(vector) >= 0).all() else vector
    for size in range(len(rows) + 1):
        for tight in itertools.combinations(range(len(rows)), size):
            part = rows[list(tight)]
            weights = np.linalg.lstsq(part @ part.T, -part @ vector, rcond=None)[0]
            found = vector + part.T @ weights
            if (rows @ found >= -1e-9).all() and np.linalg.norm(found - vector) < np.linalg.norm(
                best - vector
            ):
                best = found
    return best


@settings(max_examples=60, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**20), count=st.integers(1, 5), alike=st.booleans())
def test_the_projection_is_the_nearest_vector_without_a_negative_product(
    seed: int, count: int, alike: bool
) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((count, 7))
    if alike and count > 1:
        rows[1] = rows[0]
    vector = generator.standard_normal(7) - 0.5 * rows.sum(0)
    weights = cone_weights(rows @ rows.T, rows @ vector)
    assert (weights >= 0).all()
    found = vector + rows.T @ weights
    assert (rows @ found >= -1e-9).all()
    nearest = by_trying_all(rows, vector)
    assert np.linalg.norm(found - vector) == pytest.approx(np.linalg.norm(nearest - vector))


def test_cone_weights_by_hand() -> None:
    gram = np.array([[4.0, 0.0], [0.0, 1.0]])
    assert cone_weights(gram, np.array([-2.0, 3.0])).tolist() == pytest.approx([0.5, 0.0])
    assert cone_weights(gram, np.array([1.0, 0.0])).tolist() == [0.0, 0.0]
    assert cone_weights(np.zeros((0, 0)), np.zeros(0)).tolist() == []
