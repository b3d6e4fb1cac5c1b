"""Parameters: maps, growth by rows, names for files."""

from __future__ import annotations

import torch

from lkge.models.parameters import Gradient, Parameters, no_parameters


def numbered(entities: int, relations: int, start: float = 0.0) -> Parameters:
    return Parameters(
        start + torch.arange(2.0 * entities).reshape(-1, 2),
        100 + start + torch.arange(2.0 * relations).reshape(-1, 2),
    )


def test_map_goes_over_both_tables_and_others() -> None:
    total = numbered(2, 1).map(torch.add, numbered(2, 1, start=1.0))
    assert total.entity.tolist() == [[1, 3], [5, 7]]
    assert total.relation.tolist() == [[201, 203]]


def test_growth_keeps_rows_and_appends_the_missing_ones() -> None:
    old, like = numbered(2, 1), numbered(4, 1, start=0.5)
    grown = old.grown_to(like)
    assert torch.equal(grown.entity[:2], old.entity)
    assert torch.equal(grown.entity[2:], like.entity[2:])
    assert torch.equal(grown.relation, old.relation)


def test_growth_starts_from_nothing() -> None:
    like = numbered(3, 2)
    grown = no_parameters(2).grown_to(like)
    assert torch.equal(grown.entity, like.entity)
    assert torch.equal(grown.relation, like.relation)


def test_a_clone_has_its_own_memory() -> None:
    tables = numbered(2, 1)
    copy = tables.clone()
    tables.entity += 1
    assert copy.entity.tolist() == [[0, 1], [2, 3]]


def test_names_and_back() -> None:
    tables = numbered(2, 1)
    named = tables.named("first")
    assert set(named) == {"first.entity", "first.relation"}
    back = Parameters.from_named(named, "first")
    assert back.entity is tables.entity
    assert back.relation is tables.relation


def test_size_in_bytes() -> None:
    assert numbered(3, 2).nbytes == (3 * 2 + 2 * 2) * 4
    assert no_parameters(7).nbytes == 0


def test_a_fresh_gradient_fits_the_tables() -> None:
    gradient = Gradient.like(numbered(3, 2))
    assert [part.values.shape for part in gradient] == [(3, 2), (2, 2)]
    assert [len(part.touched) for part in gradient] == [3, 2]


def with_extra(names: list[str]) -> Parameters:
    tables = numbered(2, 1)
    return Parameters(tables.entity, tables.relation, {name: torch.ones(3, 4) for name in names})


def test_further_tables_are_mapped_copied_named_and_counted_like_the_two() -> None:
    tables = with_extra(["scale", "attention"])
    assert [tuple(table.shape) for table in tables] == [(2, 2), (1, 2), (3, 4), (3, 4)]
    doubled = tables.map(torch.add, tables)
    assert doubled.extra["scale"].sum() == 24
    copy = tables.clone()
    tables.extra["scale"] += 1
    assert copy.extra["scale"].sum() == 12
    named = tables.named("tables")
    assert set(named) == {f"tables.{n}" for n in ("entity", "relation", "scale", "attention")}
    back = Parameters.from_named({"other.entity": torch.zeros(1), **named}, "tables")
    assert back.extra.keys() == tables.extra.keys()
    assert tables.nbytes == (4 + 2 + 12 + 12) * 4
    gradient = Gradient.like(tables)
    assert [part.values.shape for part in gradient] == [table.shape for table in tables]


def test_their_order_is_that_of_their_names_however_they_came() -> None:
    one, other = with_extra(["b", "a"]), with_extra(["a", "b"])
    one.extra["a"], other.extra["a"] = torch.zeros(1), torch.zeros(1)
    assert [len(table) for table in one] == [len(table) for table in other] == [2, 1, 1, 3]


def test_growth_leaves_further_tables_to_their_method() -> None:
    grown = with_extra(["scale"]).grown_to(numbered(5, 3))
    assert len(grown.entity) == 5
    assert grown.extra["scale"].shape == (3, 4)
