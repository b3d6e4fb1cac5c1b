"""LAN: what a neighbour weighs depends on the query, by logic and by what was learned."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.backends.made import gradient_of, made_facts
from tests.methods import plain_encoders as plain
from tests.methods.inductive_graph import (
    PAST,
    as_lists,
    assert_differences,
    begun,
    course,
    exact,
    some_batch,
)
from tests.methods.plain_python import Table, both_ways
from torch import Tensor

from lkge.data.snapshots import no_facts, with_inverses
from lkge.methods.inductive import Inductive
from lkge.methods.lan import Attention, Lan, discounts, implications
from lkge.methods.neighbours import Neighbourhoods
from lkge.models.model import Model
from lkge.models.predictor import RelationPredictor, TablePredictor

MIN_DISCOUNT = Lan.Config(name="lan").min_discount
FACTS = made_facts(3, 40, 12, 4)
FACTS[:, 1] = np.where(FACTS[:, 1] == 4, 0, FACTS[:, 1])
EDGES = with_inverses(FACTS)


def implies(num_relations: int) -> Table:
    """P(p ⇒ q) in the first snapshot."""
    size = range(2 * num_relations)
    return [[plain.implied(p, q, both_ways(PAST)) for q in size] for p in size]


def attention_of(method: Inductive, model: Model) -> Attention:
    """The plain one, which can tell its weights."""
    assert isinstance(method, Lan)
    return method._attention(model.score, model.tables, method.near, method._logic)


def weights_of(attention: Attention, query: int) -> Tensor:
    """Those of the neighbours of all entities, for one query relation."""
    every = torch.arange(len(attention.near))
    _, starts, weights = attention.weigh(every, torch.full_like(every, query))
    assert torch.equal(starts, attention.near.starts)
    return weights


def at(method: Inductive, model: Model, relation: int) -> TablePredictor:
    predictor = method.predictor(model)
    assert isinstance(predictor, RelationPredictor)
    return predictor.encoder.at(relation)


def test_weights_are_those_of_the_formulas() -> None:
    for method, model in course("lan"):
        attention = attention_of(method, model)
        near, tables = plain.listed(method.near), as_lists(model.tables)
        strengths = implies(len(tables["relation"]) // 2)
        for query in range(len(tables["relation"])):
            weights = weights_of(attention, query)
            for entity, (a, b) in enumerate(pairwise(method.near.starts)):
                expected = plain.lan_weights(entity, query, near, strengths, MIN_DISCOUNT, tables)
                torch.testing.assert_close(weights[a:b], torch.tensor(expected))


def test_weights_sum_to_one_for_every_entity_and_query() -> None:
    *_, (method, model) = course("lan")
    attention = attention_of(method, model)
    has = (method.near.counts > 0).float()
    for query in range(8):
        weights = weights_of(attention, query)
        assert (weights > 0).all()
        sums = torch.zeros(11).index_add(0, method.near.subjects, weights)
        torch.testing.assert_close(sums, has)


@pytest.mark.parametrize("silent", ["logic", "learned"])
def test_either_part_makes_the_weights_depend_on_the_query(silent: str) -> None:
    method, model = begun("lan")
    if silent == "learned":
        model.tables.extra["vector"].zero_()
    attention = attention_of(method, model)
    if silent == "logic":
        attention.logic.implies.zero_()
    weights = [weights_of(attention, query) for query in (0, 2, 3)]
    assert not torch.isclose(weights[0], weights[1]).all()
    assert not torch.isclose(weights[1], weights[2]).all()


def test_a_relation_that_was_never_seen_leaves_the_weights_to_what_was_learned() -> None:
    *_, (method, model) = course("lan")
    attention = attention_of(method, model)
    model.tables.extra["query"][6:].zero_()
    weights = weights_of(attention, 6)
    assert torch.equal(weights, weights_of(attention, 7))
    attention.logic.implies.zero_()
    torch.testing.assert_close(weights, weights_of(attention, 6))


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_mixed_queries_are_weighed_like_one_at_a_time(backend: str) -> None:
    *_, (method, model) = course("lan", backend=backend)
    entities, queries = torch.tensor([5, 0, 5, 8, 2]), torch.tensor([1, 1, 6, 0, 3])
    rows = method.encode(model.score, model.tables, entities, queries)
    for row, entity, query in zip(rows, entities, queries, strict=True):
        alone = method.encode(model.score, model.tables, entity[None], query[None])
        torch.testing.assert_close(row, alone[0])


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_subjects_are_encoded_for_r_and_candidates_for_its_inverse(backend: str) -> None:
    for method, model in course("lan", backend=backend):
        for relation in (2, 3, 4):
            predictor = at(method, model, relation)
            assert predictor.subject is not None
            torch.testing.assert_close(predictor.subject, plain_rows(method, model, relation))
            torch.testing.assert_close(predictor.entity, plain_rows(method, model, relation ^ 1))


def plain_rows(method: Inductive, model: Model, query: int) -> Tensor:
    """All entities as a query sees them, of length one."""
    near, tables = plain.listed(method.near), as_lists(model.tables)
    strengths = implies(len(tables["relation"]) // 2)
    rows = [
        plain.lan_row(e, query, near, strengths, MIN_DISCOUNT, tables) for e in range(len(near))
    ]
    return torch.tensor([plain.unit(row) for row in rows])


def test_a_query_has_the_same_answer_whatever_came_before() -> None:
    *_, (method, model) = course("lan")
    predictor = method.predictor(model)
    assert isinstance(predictor, RelationPredictor)
    for relation in (0, 1, 5, 0, 3, 2):
        again, fresh = predictor.encoder.at(relation), at(method, model, relation)
        assert torch.equal(again.entity, fresh.entity)
        assert again.subject is not None
        assert fresh.subject is not None
        assert torch.equal(again.subject, fresh.subject)


def test_a_predictor_never_changes() -> None:
    method, model = begun("lan")
    predictor = method.predictor(model)
    assert isinstance(predictor, RelationPredictor)
    before = predictor.encoder.at(2).entity.clone()
    predictor = method.predictor(model)
    assert isinstance(predictor, RelationPredictor)
    for table in model.tables:
        table.add_(1)
    assert torch.equal(predictor.encoder.at(2).entity, before)


@pytest.mark.parametrize("neighbours", [64, 2])
def test_the_gradient_is_that_of_the_plain_loss(neighbours: int) -> None:
    method, model = begun("lan", backend="torch", max_neighbours=neighbours)
    batch, near, margin = some_batch(), plain.listed(method.near), 4.0
    strengths = implies(3)
    tables = exact(model.tables)
    model.loss.margin = margin  # type: ignore[attr-defined]
    loss, gradient = gradient_of(method.loss(model), tables, batch)

    def plain_loss(rows: dict[str, Table]) -> float:
        encoded = plain.margin_loss(
            batch,
            rows["relation"],
            margin,
            lambda e, q: plain.lan_row(e, q, near, strengths, MIN_DISCOUNT, rows),
        )
        own = plain.margin_loss(batch, rows["relation"], margin, lambda e, _: rows["entity"][e])
        return encoded + own

    assert loss == pytest.approx(plain_loss(as_lists(tables)), rel=1e-6)
    assert_differences(tables, gradient, plain_loss)


def test_both_backends_have_one_gradient() -> None:
    gradients = []
    for backend in ("numba", "torch"):
        method, model = begun("lan", backend=backend)
        gradients.append(gradient_of(method.loss(model), model.tables, some_batch())[1])
    for mine, twin in zip(*gradients, strict=True):
        torch.testing.assert_close(mine.values, twin.values)


def test_p_implies_q_as_often_as_entities_with_p_have_q() -> None:
    found = implications(EDGES, 8)
    for p in range(8):
        for q in range(8):
            assert float(found[p, q]) == pytest.approx(plain.implied(p, q, EDGES.tolist()))
    used = [0, 1, 2, 3, 6, 7]
    assert found[used, used].tolist() == [1] * 6
    assert found[4:6].count_nonzero() == found[:, 4:6].count_nonzero() == 0
    assert 0 < float(found[0, 2]) < 1
    assert found[0, 2] != found[2, 0]


def test_a_fact_that_comes_twice_counts_once() -> None:
    assert torch.equal(implications(np.concatenate([EDGES, EDGES]), 8), implications(EDGES, 8))


def test_nothing_follows_from_no_facts() -> None:
    assert implications(no_facts(), 4).count_nonzero() == 0
    assert len(discounts(Neighbourhoods.none(3), torch.zeros(4, 4), MIN_DISCOUNT)) == 0


def test_a_neighbour_is_discounted_by_what_implies_it_most() -> None:
    strengths = implications(EDGES[::9], 8)
    near = Neighbourhoods.sampled(EDGES, 13, 5, np.random.default_rng(0))
    found = discounts(near, strengths, MIN_DISCOUNT)
    assert found.min() == pytest.approx(MIN_DISCOUNT)
    for entity in range(13):
        items = range(int(near.starts[entity]), int(near.starts[entity + 1]))
        relations = {int(near.relations[item]) for item in items}
        for item in items:
            expected = plain.discount(
                int(near.relations[item]), relations, strengths.tolist(), MIN_DISCOUNT
            )
            assert float(found[item]) == pytest.approx(expected)
