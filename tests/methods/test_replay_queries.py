"""Which old queries are replayed: counted ones, and pseudo-queries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.backends.made import made_tables

from lkge.data.snapshots import Facts
from lkge.methods import replay_queries
from lkge.methods.replay_queries import (
    PseudoQueryConfig,
    QueryCounts,
    entropies,
    pseudo_queries,
)
from lkge.models.parameters import Parameters
from lkge.models.scores import SCORES, score_named

pytestmark = pytest.mark.usefixtures("one_thread")


def facts(*rows: tuple[int, int, int]) -> Facts:
    return np.array(rows, dtype=np.int32).reshape(-1, 3)


CONFIG = PseudoQueryConfig()
ONE = facts((0, 0, 1), (0, 0, 2), (3, 2, 1))
TWO = facts((0, 0, 4), (1, 1, 9))


def counted(queries: QueryCounts) -> dict[tuple[int, ...], int]:
    return {
        tuple(query): count
        for query, count in zip(queries.queries.tolist(), queries.counts.tolist(), strict=True)
    }


def test_a_fact_answers_a_query_in_each_direction() -> None:
    counts = QueryCounts().with_facts(ONE)
    assert counted(counts) == {(0, 0): 2, (1, 1): 1, (2, 1): 1, (3, 2): 1, (1, 3): 1}
    assert counts.counts.sum() == 2 * 3


def test_it_grows_and_does_not_depend_on_the_order() -> None:
    together = QueryCounts().with_facts(np.concatenate([TWO, ONE]))
    apart = QueryCounts().with_facts(ONE).with_facts(TWO)
    assert counted(together) == counted(apart)
    assert counted(apart)[0, 0] == 3
    assert counted(apart)[1, 1] == 2
    assert together.queries.tolist() == sorted(together.queries.tolist())


def test_retracted_facts_leave_no_trace() -> None:
    grown = QueryCounts().with_facts(ONE).with_facts(TWO)
    assert counted(grown.without(TWO)) == counted(QueryCounts().with_facts(ONE))
    unknown = facts((7, 0, 8))
    assert counted(grown.without(unknown)) == counted(grown)


def test_no_object_is_kept() -> None:
    """Two graphs that differ only by who answers have the same counts of their queries."""
    one, other = (QueryCounts().with_facts(facts((0, 0, o), (5, 0, o))) for o in (1, 2))
    queries = [(0, 0), (5, 0)]
    assert [counted(one)[q] for q in queries] == [counted(other)[q] for q in queries]
    assert set(one.named()) == {"query_counts.queries", "query_counts.counts"}


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_queries_are_drawn_as_often_as_they_were_answered(size: int) -> None:
    counts = QueryCounts().with_facts(ONE).with_facts(TWO)
    drawn_queries, shares = counts.draw(size, np.random.default_rng(0))
    assert len(np.unique(drawn_queries, axis=0)) == len(drawn_queries) == len(shares)
    assert float(shares.sum()) == pytest.approx(1)
    if size == 5000:
        total = counts.counts.sum()
        drawn = dict(zip(map(tuple, drawn_queries.tolist()), shares.tolist(), strict=True))
        expected = {query: count / total for query, count in counted(counts).items()}
        assert drawn == pytest.approx(expected, abs=1e-3)


def test_every_draw_is_another() -> None:
    counts = QueryCounts().with_facts(facts(*((k, 0, k + 1) for k in range(0, 200, 2))))
    draws = {
        tuple(counts.draw(10, np.random.default_rng(seed))[0][:, 0].tolist()) for seed in (0, 0, 1)
    }
    assert len(draws) == 2


def test_it_survives_a_file() -> None:
    counts = QueryCounts().with_facts(ONE)
    assert counted(QueryCounts.from_named(counts.named())) == counted(counts)


def ring(entities: int = 12) -> Parameters:
    """Relation 0 leads from each entity to the next, and every other nowhere in particular."""
    turns = torch.arange(entities)[:, None] * torch.arange(1, 5) * (2 * math.pi / entities)
    step = torch.arange(1, 5) * (2 * math.pi / entities)
    rows = torch.cat([turns.cos(), turns.sin()], dim=1)
    relation = torch.zeros(4, 8)
    relation[0] = 6 * torch.cat([step.cos(), step.sin()])
    return Parameters(rows, relation)


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("most", [1, 1 << 21], ids=["many blocks", "one block"])
def test_entropies_are_those_of_the_softmax(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_queries, "BLOCK", most)
    tables, score = made_tables(1, 9, 2, 8, scale=1.0), score_named(name)
    queries = np.array([(0, 0), (3, 1), (8, 3)], dtype=np.int32)
    entity, relation = (
        score.prepare_entities(tables.entity),
        score.prepare_relations(tables.relation),
    )
    for (head, between), found in zip(
        queries.tolist(), entropies(score, tables, queries), strict=True
    ):
        scores = [float(score.score(entity[head], relation[between], tail)) for tail in entity]
        total = sum(map(math.exp, scores))
        shares = [math.exp(value) / total for value in scores]
        assert found == pytest.approx(-sum(p * math.log(p) for p in shares), rel=1e-4)


def test_queries_with_an_answer_are_drawn() -> None:
    tables = ring()
    drawn = pseudo_queries(
        score_named("complex"),
        tables,
        tables.map(torch.ones_like),
        10,
        CONFIG,
        np.random.default_rng(0),
    )
    assert len(drawn.queries) == len(drawn.counts) == 10
    assert len(np.unique(drawn.queries, axis=0)) == 10
    assert np.mean(drawn.queries[:, 1] == 0) >= 0.9


def test_rows_without_evidence_are_not_drawn() -> None:
    tables = made_tables(1, 9, 2, 8)
    evidence = tables.map(torch.zeros_like)
    evidence.entity[[2, 5]] = 1
    evidence.relation[3] = 0.1
    drawn = pseudo_queries(
        score_named("complex"), tables, evidence, 50, CONFIG, np.random.default_rng(0)
    )
    assert drawn.queries.tolist() == [[2, 3], [5, 3]]


def test_without_any_evidence_all_rows_are_drawn() -> None:
    tables = made_tables(1, 9, 2, 8)
    drawn = pseudo_queries(
        score_named("complex"),
        tables,
        tables.map(torch.zeros_like),
        36,
        CONFIG,
        np.random.default_rng(0),
    )
    assert len(np.unique(drawn.queries[:, 0])) == 9
