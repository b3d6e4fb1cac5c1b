"""EWC: Fisher information from one fact at a time, and what it holds."""

from __future__ import annotations

import pytest
import torch

from lkge.backends.torch_losses import MarginLoss
from lkge.data.batches import batches
from lkge.data.snapshots import with_inverses
from lkge.methods.regularization import Ewc
from lkge.models.model import INFORM, Model, stream
from lkge.models.parameters import Gradient, Parameters
from lkge.testing.graphs import config_for, growing_graph, trained

GRAPH = growing_graph()
EWC = config_for("ewc")
ALPHA = EWC.get("regularization_weight")


def one_fact_at_a_time(model: Model, index: int, sharing: int) -> Parameters:
    """Σ over facts of the squared gradient, by autograd, in float64."""
    snapshot = GRAPH.snapshots[index]
    loss = MarginLoss(model.score, EWC.training.margin)
    total = model.tables.map(lambda table: torch.zeros_like(table, dtype=torch.float64))
    generator = stream(EWC.training.seed, INFORM, index)
    for batch in batches(
        with_inverses(snapshot.train), EWC.training.batch_size, EWC.training.negatives,
        snapshot.num_entities, generator, sharing,
    ):  # fmt: skip
        for fact in batch.singly():
            gradient = Gradient.like(model.tables)
            loss.add_gradient(model.tables, fact, gradient)
            for part, squares in zip(gradient, total, strict=True):
                squares += part.values.double().square()
    return total


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("sharing", [1, 5])
def test_fisher_information_is_summed_over_single_facts_and_over_snapshots(
    backend: str, sharing: int
) -> None:
    expected: Parameters | None = None
    config = EWC.with_changes({"backend": backend, "negatives_shared_by": sharing})
    for snapshot, model, method in trained(GRAPH, config):
        here = one_fact_at_a_time(model, snapshot.index, sharing)
        if expected is not None:
            before = expected.grown_to(here.map(torch.zeros_like))
            here = here.map(torch.add, before)
        expected = here
        found = Parameters.from_named(method.state(), "fisher")
        for mine, true in zip(found, expected, strict=True):
            torch.testing.assert_close(mine.double(), true, rtol=1e-4, atol=1e-7)
            assert mine.any()


def test_the_pull_is_alpha_times_fisher_times_the_square_of_the_move() -> None:
    _, model, method = next(trained(GRAPH, EWC))
    fisher = Parameters.from_named(method.state(), "fisher")
    old = model.tables.clone()
    method.grow(model, GRAPH.snapshots[1])
    method.begin(model, GRAPH.snapshots[1])
    model.tables = model.tables.map(lambda table: table + 0.1)
    gradient = Gradient.like(model.tables)
    for part in gradient:
        part.touched[:] = 1
    loss = method.penalty(model, gradient)
    expected = ALPHA * sum(float(table.double().sum()) for table in fisher) * 0.01
    assert loss == pytest.approx(expected, rel=1e-4)
    for part, weights, rows in zip(gradient, fisher, old, strict=True):
        torch.testing.assert_close(
            part.values[: len(rows)], 2 * ALPHA * weights * 0.1, rtol=1e-4, atol=1e-6
        )
        assert not part.values[len(rows) :].any()


def test_the_more_information_the_less_a_coordinate_moves() -> None:
    moves = []
    for alpha in (0.0, 1.0, 100.0):
        course = trained(GRAPH, EWC.with_changes({"regularization_weight": alpha}))
        before = next(course)[1].tables.entity.clone()
        moves.append(float((next(course)[1].tables.entity[: len(before)] - before).abs().sum()))
    assert moves[0] > moves[1] > moves[2]


def test_it_carries_a_number_for_each_coordinate() -> None:
    *_, (_, model, method) = trained(GRAPH, EWC)
    assert isinstance(method, Ewc)
    assert method.carried_bytes() == model.tables.nbytes
