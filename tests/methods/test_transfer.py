"""Embedding transfer, Eqs. (8) and (9)."""

from __future__ import annotations

import pytest
import torch
from tests.backends.made import made_tables
from tests.methods import plain_python as paper
from tests.methods.hand_made import NEW, as_facts, plain

from lkge.data.snapshots import no_facts
from lkge.methods.lkge import transfer
from lkge.models.parameters import Parameters, no_parameters
from lkge.models.scores import SCORES, TransE, score_named


def grown_from(old: Parameters) -> Parameters:
    return old.grown_to(made_tables(9, 10, 3, 4))


def test_new_rows_start_where_old_rows_put_them() -> None:
    old = made_tables(1, 5, 2, 4)
    before = grown_from(old)
    after = transfer(TransE(), as_facts(NEW), before.clone(), old)
    for entity in range(10):
        expected = paper.transferred_entity(entity, plain(old), NEW) if entity >= 5 else None
        row = before.entity[entity] if expected is None else torch.tensor(expected)
        torch.testing.assert_close(after.entity[entity], row)
    for relation in range(6):
        expected = paper.transferred_relation(relation, plain(old), NEW) if relation >= 4 else None
        row = before.relation[relation] if expected is None else torch.tensor(expected)
        torch.testing.assert_close(after.relation[relation], row)
    assert not torch.equal(after.entity[5], before.entity[5])
    assert not torch.equal(after.relation[4], before.relation[4])


def test_the_mean_counts_facts_with_old_rows_alone() -> None:
    """Entity 2 is new: one fact with an old row at 1, one with an old row at 4, one with entity 3,
    which is new as well."""
    old = Parameters(torch.tensor([[1.0], [4.0]]), torch.tensor([[0.5], [-0.5]]))
    tables = old.grown_to(Parameters(torch.full((4, 1), 100.0), torch.zeros(2, 1)))
    facts = as_facts([(2, 0, 0), (1, 0, 2), (2, 0, 3)])
    after = transfer(TransE(), facts, tables, old)
    assert after.entity.tolist() == [[1.0], [4.0], [(0.5 + 4.5) / 2], [100.0]]


def test_inverse_relations_are_opposite() -> None:
    old = made_tables(1, 5, 2, 4)
    after = transfer(TransE(), as_facts(NEW), grown_from(old), old)
    torch.testing.assert_close(after.relation[4], -after.relation[5])


def test_without_old_rows_or_facts_nothing_is_transferred() -> None:
    tables = made_tables(9, 10, 3, 4)
    for facts, old in [(as_facts(NEW), no_parameters(4)), (no_facts(), made_tables(1, 5, 2, 4))]:
        after = transfer(TransE(), facts, tables, old)
        assert torch.equal(after.entity, tables.entity)
        assert torch.equal(after.relation, tables.relation)


@pytest.mark.parametrize("name", sorted(SCORES))
def test_a_new_entity_starts_where_its_facts_expect_it(name: str) -> None:
    """Entity 2 has the fact (2, 0, 0), and is better placed for it than entity 3, which has not."""
    score, old = score_named(name), made_tables(3, 2, 1, 8)
    facts = as_facts([(2, 0, 0), (1, 0, 3), (0, 2, 1)])
    after = transfer(score, facts, old.grown_to(made_tables(9, 4, 2, 8)), old)
    entity, relation = after.entity, after.relation
    torch.testing.assert_close(entity[2], score.decompose(old.relation[0], old.entity[0]))
    torch.testing.assert_close(entity[3], score.decompose(old.relation[1], old.entity[1]))
    torch.testing.assert_close(relation[2], score.relate(old.entity[0], old.entity[1]))
    prepared = score.prepare_entities(entity), score.prepare_relations(relation)
    placed, other = (score.score(prepared[0][e], prepared[1][0], prepared[0][0]) for e in (2, 3))
    assert placed > other
