"""What MEAN and LAN share: one snapshot is learned, and what comes later is encoded."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.backends.made import batch_of
from tests.methods.hand_made import as_facts
from tests.methods.inductive_graph import FACTS_OF_NEW, SNAPSHOTS, begun, course, small_config
from tests.methods.plain_encoders import listed

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import no_facts
from lkge.methods.inductive import renumbered
from lkge.models.predictor import View
from lkge.models.scores import SCORES
from lkge.testing.graphs import made_of
from lkge.training.loop import Loop

BOTH = pytest.mark.parametrize("name", ["mean", "lan"])


@BOTH
def test_only_the_first_snapshot_is_learned(name: str) -> None:
    method, _ = begun(name)
    assert method.facts(SNAPSHOTS[0]).tolist() == SNAPSHOTS[0].train.tolist()
    assert len(method.facts(SNAPSHOTS[1])) == len(method.facts(SNAPSHOTS[2])) == 0
    records = Loop(made_of(*SNAPSHOTS), small_config(name)).run()
    epochs = [record.epochs for record in records.results.snapshots]
    assert epochs[0] > 0
    assert epochs[1:] == [0, 0]


@BOTH
def test_old_rows_stay_bit_for_bit(name: str) -> None:
    tables = [model.tables.clone() for _, model in course(name)]
    for before, after in pairwise(tables):
        for old, new in zip(before, after, strict=True):
            assert torch.equal(old, new[: len(old)])


@BOTH
def test_new_entities_are_encoded_from_their_facts_pass_by_pass(name: str) -> None:
    first, second, third = [listed(method.near) for method, _ in course(name)]
    assert second[:5] == first
    for entity, facts in FACTS_OF_NEW.items():
        assert set(second[entity]) == facts
        assert len(second[entity]) == len(facts)
    assert second[8] == second[9] == []
    assert third[:10] == second
    assert third[10] == [(0, 7)]


@BOTH
def test_a_new_entity_is_a_neighbour_with_its_encoded_vector(name: str) -> None:
    *_, (method, model) = course(name)
    new = torch.tensor([5, 6, 7, 10])
    with torch.no_grad():
        rows = method.vectors(model.score, model.tables, new)
    torch.testing.assert_close(model.tables.entity[new], rows)
    drawn = model.drawn(SNAPSHOTS[1]).entity
    assert not torch.isclose(model.tables.entity[5:8], drawn[5:8]).all(dim=1).any()
    assert torch.equal(model.tables.entity[8:10], drawn[8:10])


@BOTH
def test_another_fact_makes_another_entity(name: str) -> None:
    method, model = next(course(name))
    other, model_of_other = next(course(name))
    method.grow(model, SNAPSHOTS[1])
    changed = SNAPSHOTS[1].train.copy()
    assert changed[0].tolist() == [5, 0, 1]
    changed[0, 2] = 3
    other.grow(model_of_other, replace(SNAPSHOTS[1], train=changed))
    same = torch.isclose(model.tables.entity, model_of_other.tables.entity).all(dim=1)
    assert same.tolist() == [True] * 5 + [False] * 3 + [True] * 2


@BOTH
def test_relations_without_training_have_zero_rows(name: str) -> None:
    for _, model in course(name):
        zero = [not row.any() for row in model.tables.relation]
        assert zero[:4] == [False] * 4
        assert zero[6:] == [True] * (len(zero) - 6)
    method, model = next(course(name))
    fresh = type(model)(model.config)
    method.grow(fresh, SNAPSHOTS[0])
    assert not fresh.tables.relation[4:].any()


@BOTH
@pytest.mark.parametrize("score", sorted(SCORES))
def test_an_untrained_relation_leads_from_everything_to_itself(name: str, score: str) -> None:
    *_, (_, model) = course(name, score=score)
    untrained = model.score.prepare_relations(model.tables.relation[6:])
    assert len(untrained) == 2
    for row in untrained:
        entity = model.score.prepare_entities(model.tables.entity)
        assert model.score.compose(entity, row).equal(entity)


@BOTH
def test_what_cannot_be_done_is_said(name: str) -> None:
    notes = [method.note() for method, _ in course(name)]
    assert notes == [
        "1 of 3 relations were never trained; 1 of 5 entities could not be encoded",
        "2 of 4 relations were never trained; 3 of 10 entities could not be encoded",
        "2 of 4 relations were never trained; 3 of 11 entities could not be encoded",
    ]
    complete = replace(SNAPSHOTS[0], num_entities=4, num_relations=2)
    method, model = begun(name)
    method.grow(type(model)(model.config), complete)
    assert method.note() == ""


@BOTH
@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_every_query_is_ranked_whatever_was_trained(name: str, backend: str) -> None:
    """By its score among those of all entities; ranks in ties are the mean of what they allow."""
    *_, (method, model) = course(name, backend=backend)
    queries = [(s, r, o) for r in range(8) for s, o in [(0, 3), (4, 9), (9, 10), (6, 8)]]
    predictor = method.predictor(model)
    ranks = predictor.ranks(as_facts(queries), [View(11, 2)], KnownFacts.build([no_facts()]))
    assert ranks.shape == (32, 1)
    assert len(np.unique(ranks)) > 5
    for (s, r, o), rank in zip(queries, ranks[:, 0].tolist(), strict=True):
        scores = predictor.candidate_scores(s, r)
        above, others = scores > scores[o] + 1e-5, np.delete(scores, o)
        assert 1 + above.sum() <= rank <= 1 + (others >= scores[o] - 1e-5).sum()
    several = predictor.query_scores(as_facts(queries[::-3]))
    for row, (s, r, _) in zip(several, queries[::-3], strict=True):
        np.testing.assert_allclose(row, predictor.candidate_scores(s, r), rtol=1e-5, atol=1e-5)


@BOTH
def test_no_more_neighbours_than_allowed(name: str) -> None:
    *_, (method, _) = course(name, max_neighbours=1)
    assert method.near.counts.tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1]


@BOTH
def test_the_seed_draws_the_neighbours(name: str) -> None:
    drawn = [listed(begun(name, max_neighbours=2, seed=seed)[0].near) for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert any(other != drawn[0] for other in drawn[2:])


def test_a_batch_is_renumbered_by_its_distinct_entities_and_queries() -> None:
    batch = batch_of(
        ((7, 2, 3), [(4, True), (7, False)]),
        ((3, 3, 7), [(3, True), (4, False)]),
    )
    distinct, seen = renumbered(batch, batch.facts[:, 1], batch.facts[:, 1] ^ 1)
    named = [tuple(row) for row in distinct.tolist()]
    assert len(set(named)) == len(named)
    assert [(named[s], r, named[o]) for s, r, o in seen.facts.tolist()] == [
        ((7, 2), 2, (3, 3)),
        ((3, 3), 3, (7, 2)),
    ]
    assert [[named[c] for c in row] for row in seen.corruptions.tolist()] == [
        [(4, 3), (7, 2)],
        [(3, 2), (4, 3)],
    ]
    assert seen.corrupt_object is batch.corrupt_object
    assert seen.facts.dtype == seen.corruptions.dtype == np.int32

    distinct, seen = renumbered(batch, np.zeros(2, np.int32), np.zeros(2, np.int32))
    assert distinct.tolist() == [[3, 0], [4, 0], [7, 0]]
    assert seen.facts.tolist() == [[2, 2, 0], [0, 3, 2]]
    assert seen.corruptions.tolist() == [[1, 2], [0, 1]]
