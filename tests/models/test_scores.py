"""TransE and the functions that the paper deduces from it."""

from __future__ import annotations

import math

import pytest
import torch

from lkge.errors import UnknownName
from lkge.models.scores import SCORES, TransE, score_named

TRANSE = TransE()
EVERY_SCORE = pytest.mark.parametrize("name", sorted(SCORES))


def made_rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def test_score_by_hand() -> None:
    head, relation, tail = (torch.tensor(row) for row in ([1.0, 2.0], [0.5, -1.0], [1.0, 4.0]))
    assert TRANSE.score(head, relation, tail).item() == -(0.5 + 3.0)


def test_prepared_rows_have_length_one_and_zero_stays_zero() -> None:
    prepared = TRANSE.prepare(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert prepared.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]


def test_the_parts_of_a_perfect_fact_follow_from_each_other() -> None:
    head, relation = made_rows(2, 7)
    tail = TRANSE.compose(head, relation)
    torch.testing.assert_close(TRANSE.decompose(relation, tail), head)
    torch.testing.assert_close(TRANSE.relate(head, tail), relation)
    assert TRANSE.score(head, relation, tail).item() == pytest.approx(0, abs=1e-6)


def test_the_score_is_the_distance_from_the_query() -> None:
    head, relation, tail = made_rows(3, 5, 7)
    distance = (TRANSE.compose(head, relation) - tail).abs().sum(-1)
    torch.testing.assert_close(TRANSE.score(head, relation, tail), -distance)


@EVERY_SCORE
def test_scoring_one_by_one_equals_scoring_in_bulk(name: str) -> None:
    score = score_named(name)
    heads, relations, tails = made_rows(3, 4, 6)
    bulk = score.score(heads[:, None], relations[:, None], tails[None])
    for i in range(4):
        for j in range(4):
            one = score.score(heads[i], relations[i], tails[j])
            assert math.isclose(bulk[i, j].item(), one.item(), rel_tol=1e-6)


@EVERY_SCORE
def test_a_score_is_found_by_its_name(name: str) -> None:
    assert score_named(name).name == name


def test_an_unknown_score_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'transe'"):
        score_named("tranze")
