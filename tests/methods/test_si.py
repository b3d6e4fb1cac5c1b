"""SI: importance is the path integral of its definition."""

from __future__ import annotations

import pytest
import torch

from lkge.methods.regularization import Si, importance
from lkge.models.model import Model
from lkge.models.parameters import Gradient, Parameters
from lkge.testing.graphs import config_for, growing_graph, train_snapshot

GRAPH = growing_graph()
SI = config_for("si", regularization_weight=1.0)
DAMPING = SI.get("damping")


class Watched(Si):
    """SI that also writes down every step: the gradient of L_new, and the tables around it."""

    def __init__(self) -> None:
        super().__init__(SI)
        self.steps: list[tuple[Parameters, Parameters, Parameters]] = []
        self.begun = Parameters(torch.empty(0), torch.empty(0))

    def begin(self, model: Model, snapshot: object) -> None:
        super().begin(model, snapshot)  # type: ignore[arg-type]
        self.begun = model.tables.clone()
        self.steps = []

    def penalty(self, model: Model, gradient: Gradient) -> float:
        slope = Parameters(gradient.entity.values.clone(), gradient.relation.values.clone())
        self._before = model.tables.clone(), slope
        return super().penalty(model, gradient)

    def after_step(self, model: Model, gradient: Gradient) -> None:
        super().after_step(model, gradient)
        self.steps.append((*self._before, model.tables.clone()))


def test_importance_is_the_path_integral_of_the_loss_on_new_facts() -> None:
    """Up to the epoch whose tables were kept, coordinate by coordinate, in float64."""
    model, method = Model(SI), Watched()
    expected = model.tables.map(torch.clone)
    for index in range(3):
        train_snapshot(model, method, GRAPH, index)
        kept = next(
            k + 1
            for k, (_, _, after) in enumerate(method.steps)
            if after.entity.equal(model.tables.entity)
        )
        path = method.begun.map(lambda table: torch.zeros_like(table, dtype=torch.float64))
        for before, slope, after in method.steps[:kept]:
            path = path.map(
                lambda p, g, b, a: p - g.double() * (a - b).double(), slope, before, after
            )
        gained = path.map(
            lambda p, end, start: p.clamp(min=0) / ((end - start).double().square() + DAMPING),
            model.tables,
            method.begun,
        )
        expected = expected.grown_to(gained.map(torch.zeros_like)).map(torch.add, gained)
        found = Parameters.from_named(method.state(), "importance")
        for mine, true in zip(found, expected, strict=True):
            torch.testing.assert_close(mine.double(), true, rtol=1e-3, atol=1e-6)
            assert mine.any()


def test_the_penalty_has_no_part_in_the_path() -> None:
    """With a pull so strong that it dominates, the noted gradient is still that of L_new."""
    model, method = Model(SI), Watched()
    train_snapshot(model, method, GRAPH, 0)
    method._importance = method._importance.map(lambda table: table + 100)
    train_snapshot(model, method, GRAPH, 1)
    gradient = Gradient.like(model.tables)
    method.grow(model, GRAPH.snapshots[2])
    method.begin(model, GRAPH.snapshots[2])
    model.tables = model.tables.map(lambda table: table + 0.1)
    gradient = Gradient.like(model.tables)
    gradient.entity.touched[:5] = 1
    assert method.penalty(model, gradient) > 1
    assert all(not moment.slopes.any() for moment in method._moments)


def test_by_hand() -> None:
    path = torch.tensor([2.0, -1.0, 3.0])
    end, start = torch.tensor([1.0, 1.0, 0.5]), torch.tensor([0.0, 0.0, 0.5])
    found = importance(path, end, start, DAMPING).tolist()
    assert found == pytest.approx([2 / (1 + DAMPING), 0, 3 / DAMPING])
