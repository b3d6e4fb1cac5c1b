"""MEAN: an entity is the mean over its neighbours of a normalised, rectified projection."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from tests.backends.made import gradient_of
from tests.methods import plain_encoders as plain
from tests.methods.inductive_graph import (
    SNAPSHOTS,
    as_lists,
    assert_differences,
    begun,
    course,
    exact,
    some_batch,
)
from tests.methods.plain_python import Table

from lkge.methods.inductive import Mean


def test_an_entity_is_the_mean_of_what_its_neighbours_say() -> None:
    first, *later = [
        (plain.listed(method.near), as_lists(model.tables), method.inference_parameters(model))
        for method, model in course("mean")
    ]
    near, tables, _ = first
    pairs = [pair for pairs in near for pair in pairs]
    moments = plain.moments_of(pairs, tables["entity"], tables["transition"])
    for near, tables, served in [first, *later]:
        expected = [plain.mean_row(e, near, moments, tables) for e in range(len(near))]
        torch.testing.assert_close(served.entity, torch.tensor(expected))
        assert served.relation.tolist() == tables["relation"]


def test_an_old_entity_is_served_bit_for_bit_as_before() -> None:
    served = [method.inference_parameters(model).entity for method, model in course("mean")]
    for before, after in pairwise(served):
        assert torch.equal(before, after[: len(before)])


def test_a_new_entity_is_served_as_its_row_says() -> None:
    *_, (method, model) = course("mean")
    torch.testing.assert_close(
        method.inference_parameters(model).entity[5:], model.tables.entity[5:]
    )


def test_while_learning_the_moments_are_those_of_the_neighbours_in_use() -> None:
    method, model = begun("mean")
    near, tables = plain.listed(method.near), as_lists(model.tables)
    some = [1, 3]
    pairs = [pair for entity in some for pair in near[entity]]
    moments = plain.moments_of(pairs, tables["entity"], tables["transition"])
    rows = method.encode(model.score, model.tables, torch.tensor(some), torch.zeros(2))
    expected = [plain.mean_row(entity, near, moments, tables) for entity in some]
    torch.testing.assert_close(rows, torch.tensor(expected))


def test_what_is_served_does_not_change_when_the_moments_are_kept() -> None:
    method, model = begun("mean")
    before = method.inference_parameters(model).entity
    assert "moments" not in method.state()
    method.end(model, SNAPSHOTS[0])
    torch.testing.assert_close(method.inference_parameters(model).entity, before)
    heir = Mean(model.config)
    heir.load_state(method.state())
    assert torch.equal(
        heir.inference_parameters(model).entity, method.inference_parameters(model).entity
    )


@pytest.mark.parametrize("neighbours", [64, 1])
def test_the_gradient_is_that_of_the_plain_loss(neighbours: int) -> None:
    method, model = begun("mean", backend="torch", max_neighbours=neighbours)
    batch, near, margin = some_batch(), plain.listed(method.near), 4.0
    tables = exact(model.tables)
    model.loss.margin = margin  # type: ignore[attr-defined]
    loss, gradient = gradient_of(method.loss(model), tables, batch)

    def plain_loss(rows: dict[str, Table]) -> float:
        pairs = [pair for entity in plain.entities_of(batch) for pair in near[entity]]
        moments = plain.moments_of(pairs, rows["entity"], rows["transition"])
        return plain.margin_loss(
            batch, rows["relation"], margin, lambda e, _: plain.mean_row(e, near, moments, rows)
        )

    assert loss == pytest.approx(plain_loss(as_lists(tables)))
    assert_differences(tables, gradient, plain_loss)


def test_only_rows_in_use_are_touched() -> None:
    """Entity 4 has no neighbours and is nobody's neighbour; relation 4 has no fact."""
    method, model = begun("mean")
    _, gradient = gradient_of(method.loss(model), model.tables, some_batch(entities=5))
    assert gradient.entity.touched.tolist() == [1, 1, 1, 1, 0]
    assert gradient.extra["transition"].touched.tolist() == [1, 1, 1, 1, 0, 0]
    assert gradient.extra["scale"].touched.tolist() == [1]
