"""Weights of known facts against the change of a score that they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.serve.helpers import world

from lkge.backends import backend_for
from lkge.data.known_facts import KnownFacts
from lkge.errors import DataError, UnknownName
from lkge.living import init
from lkge.models.predictor import TablePredictor
from lkge.models.scores import SCORES
from lkge.store.explaining import MOST_FACTS, known_near, weights_of
from lkge.store.graph import LivingGraph

FACT = np.array([[0, 0, 1]], dtype=np.int32)
KNOWN = np.array(
    [[0, 0, 2], [3, 0, 1], [3, 0, 4], [1, 0, 0], [0, 2, 1], [5, 2, 0], [1, 2, 1], [3, 2, 4]],
    dtype=np.int32,
)


def tables(score: str, seed: int) -> TablePredictor:
    generator = torch.Generator().manual_seed(seed)
    entity, relation = (torch.randn(n, 8, generator=generator).double() for n in (6, 4))
    return TablePredictor(entity, relation, SCORES[score](), backend_for("torch", "cpu"))


def total(rows: TablePredictor, fact: Any) -> torch.Tensor:
    """F: the score of a fact in both directions."""
    s, r, o = fact
    head, tail = rows.entity[s], rows.entity[o]
    forward = rows.score.score(head, rows.relation[r], tail)
    return forward + rows.score.score(tail, rows.relation[r ^ 1], head)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("place", range(len(KNOWN)))
def test_a_weight_is_the_rise_of_the_score_when_the_known_fact_rises(
    score: str, place: int
) -> None:
    """The least change of all rows that raises the score of the known fact by a small number."""
    rows, step = tables(score, 7), 1e-6
    weight = weights_of(rows, FACT, KNOWN)[place]
    leaves = [table.clone().requires_grad_() for table in (rows.entity, rows.relation)]
    moving = TablePredictor(*leaves, rows.score, rows.backend)
    slopes = torch.autograd.grad(total(moving, KNOWN[place].tolist()), leaves)
    length = sum(float((slope**2).sum()) for slope in slopes)
    moved = [
        table + step / length * slope
        for table, slope in zip((rows.entity, rows.relation), slopes, strict=True)
    ]
    after = TablePredictor(*moved, rows.score, rows.backend)
    change = float(total(after, FACT[0].tolist()) - total(rows, FACT[0].tolist()))
    assert change / step == pytest.approx(weight, rel=1e-3, abs=1e-4)
    rise = float(total(after, KNOWN[place].tolist()) - total(rows, KNOWN[place].tolist()))
    assert rise / step == pytest.approx(1, rel=1e-3)


def test_a_fact_that_shares_nothing_has_no_weight() -> None:
    assert weights_of(tables("complex", 1), FACT, KNOWN)[-1] == 0


def test_known_facts_that_share_an_entity_or_the_relation() -> None:
    answers = KnownFacts.build([np.concatenate([FACT, KNOWN])])
    near = known_near(answers, FACT[0])
    assert {tuple(fact) for fact in near.tolist()} == set(map(tuple, KNOWN[:-1].tolist()))


def test_of_many_known_facts_some_are_compared_spread_evenly() -> None:
    many = np.array([[n, 0, n + 1] for n in range(5 * MOST_FACTS)], dtype=np.int32)
    near = known_near(KnownFacts.build([many]), many[0])
    assert MOST_FACTS <= len(near) <= MOST_FACTS + 3
    assert near[-1].tolist() == many[-1].tolist()
    assert [1, 0, 2] in near.tolist()


def test_reasons_are_known_facts_best_first_in_words(cities: LivingGraph) -> None:
    known = set(world())
    found = cities.explain("City 07", "lies in", "Country 1", k=5)
    assert found.fact == cities.score([("City 07", "lies in", "Country 1")])[0]
    assert found.fact.known
    assert found.compared > 30
    weights = [reason.weight for reason in found.reasons]
    assert weights == sorted(weights, reverse=True)
    assert all(weight > 0 for weight in weights)
    for reason in found.reasons:
        assert reason[:3] in known - {("City 07", "lies in", "Country 1")}
    same = [reason for reason in found.reasons if reason[1:3] == ("lies in", "Country 1")]
    assert same
    assert all(one.text.startswith("same relation and object, subjects alike by") for one in same)
    assert cities.explain("City 07", "lies in", "Country 1", k=2).reasons == found.reasons[:2]


def test_an_inverse_has_the_same_reasons(cities: LivingGraph) -> None:
    forward = cities.explain("City 07", "lies in", "Country 1")
    backward = cities.explain("Country 1", "lies in⁻¹", "City 07")
    assert backward.reasons == forward.reasons


def test_what_cannot_be_explained(cities: LivingGraph, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Country 1"):
        cities.explain("City 07", "lies in", "Countri 1")
    graph = init(tmp_path / "KG", known=False, dim=4, max_epochs=1, backend="torch")
    graph.add([("a", "like", "b")], valid=0)
    with pytest.raises(DataError, match="needs the known facts"):
        graph.explain("a", "like", "b")
