"""Questions that a model is sure of, without a note of which were asked."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.backends.made import made_tables

from lkge.methods.parts import recollection
from lkge.methods.replay_queries import entropies, pseudo_queries
from lkge.models.parameters import Parameters
from lkge.models.scores import SCORES, score_named

pytestmark = pytest.mark.usefixtures("one_thread")


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
    monkeypatch.setattr(recollection, "BLOCK", most)
    tables, score = made_tables(1, 9, 2, 8, scale=1.0), score_named(name)
    asked = np.array([(0, 0), (3, 1), (8, 3)], dtype=np.int32)
    entity, relation = (
        score.prepare_entities(tables.entity),
        score.prepare_relations(tables.relation),
    )
    for (head, between), found in zip(asked.tolist(), entropies(score, tables, asked), strict=True):
        scores = [float(score.score(entity[head], relation[between], tail)) for tail in entity]
        total = sum(map(math.exp, scores))
        shares = [math.exp(value) / total for value in scores]
        assert found == pytest.approx(-sum(p * math.log(p) for p in shares), rel=1e-4)


def test_questions_with_an_answer_are_recollected() -> None:
    tables = ring()
    profile = pseudo_queries(
        score_named("complex"), tables, tables.map(torch.ones_like), 10, np.random.default_rng(0)
    )
    assert len(profile.queries) == len(profile.counts) == 10
    assert len(np.unique(profile.queries, axis=0)) == 10
    assert np.mean(profile.queries[:, 1] == 0) >= 0.9


def test_what_has_no_evidence_is_not_asked() -> None:
    tables = made_tables(1, 9, 2, 8)
    evidence = tables.map(torch.zeros_like)
    evidence.entity[[2, 5]] = 1
    evidence.relation[3] = 0.1
    profile = pseudo_queries(score_named("complex"), tables, evidence, 50, np.random.default_rng(0))
    assert profile.queries.tolist() == [[2, 3], [5, 3]]


def test_without_any_evidence_all_are_alike() -> None:
    tables = made_tables(1, 9, 2, 8)
    profile = pseudo_queries(
        score_named("complex"), tables, tables.map(torch.zeros_like), 36, np.random.default_rng(0)
    )
    assert len(np.unique(profile.queries[:, 0])) == 9
