"""Each score by its formula, and the functions that LKGE deduces from it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lkge.errors import SettingsError, UnknownName
from lkge.models.model import Model
from lkge.models.scores import (
    SCORES,
    Bilinear,
    ComplEx,
    DistMult,
    RotatE,
    Score,
    TransE,
    TransEL2,
    score_named,
    score_of,
)
from lkge.testing import paper_config

TRANSE = TransE()
EVERY_SCORE = pytest.mark.parametrize("name", sorted(SCORES))
INVERTIBLE = pytest.mark.parametrize("name", ["rotate", "transe", "transe-l2"])
BILINEAR = pytest.mark.parametrize("score", [DistMult(), ComplEx()], ids=lambda score: score.name)

Row = list[float]


def made_rows(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def as_complex(row: Row) -> list[complex]:
    half = len(row) // 2
    return [complex(*parts) for parts in zip(row[:half], row[half:], strict=True)]


def unit(row: Row) -> Row:
    return [x / math.hypot(*row) for x in row]


def transe(h: Row, r: Row, t: Row) -> float:
    return -sum(abs(a + b - c) for a, b, c in zip(unit(h), unit(r), unit(t), strict=True))


def transe_l2(h: Row, r: Row, t: Row) -> float:
    return -math.hypot(*(a + b - c for a, b, c in zip(unit(h), unit(r), unit(t), strict=True)))


def distmult(h: Row, r: Row, t: Row) -> float:
    return sum(a * b * c for a, b, c in zip(h, r, t, strict=True))


def complex_(h: Row, r: Row, t: Row) -> float:
    rows = zip(as_complex(h), as_complex(r), as_complex(t), strict=True)
    return sum(a * b * c.conjugate() for a, b, c in rows).real


def rotate(h: Row, r: Row, t: Row) -> float:
    rows = zip(as_complex(h), as_complex(r), as_complex(t), strict=True)
    return -sum(abs(a * b / abs(b) - c) for a, b, c in rows)


FORMULAS: dict[str, Callable[[Row, Row, Row], float]] = {
    "transe": transe,
    "transe-l2": transe_l2,
    "distmult": distmult,
    "complex": complex_,
    "rotate": rotate,
}


def test_every_score_has_its_formula_here() -> None:
    assert set(FORMULAS) == set(SCORES)


@EVERY_SCORE
def test_a_score_is_its_formula(name: str) -> None:
    score = score_named(name)
    for head, relation, tail in made_rows(5, 3, 6):
        found = score.score(
            score.prepare_entities(head),
            score.prepare_relations(relation),
            score.prepare_entities(tail),
        )
        expected = FORMULAS[name](head.tolist(), relation.tolist(), tail.tolist())
        assert found.item() == pytest.approx(expected, rel=1e-5)


def test_transe_by_hand() -> None:
    head, relation, tail = (torch.tensor(row) for row in ([1.0, 2.0], [0.5, -1.0], [1.0, 4.0]))
    assert TRANSE.score(head, relation, tail).item() == -(0.5 + 3.0)
    assert TransEL2().score(head, relation, tail).item() == pytest.approx(-math.hypot(0.5, 3.0))


def test_rows_that_are_translated_have_length_one_and_zero_stays_zero() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    for prepared in (TRANSE.prepare_entities(rows), TRANSE.prepare_relations(rows)):
        assert prepared.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]


def test_relations_that_turn_have_coordinates_of_modulus_one() -> None:
    score, rows = RotatE(), torch.tensor([[3.0, 0.0, 4.0, -2.0]])
    turns = [[pytest.approx(0.6), 0.0, pytest.approx(0.8), -1.0]]
    assert score.prepare_relations(rows).tolist() == turns
    assert score.prepare_entities(rows).equal(rows)


@INVERTIBLE
def test_the_parts_of_a_perfect_fact_follow_from_each_other(name: str) -> None:
    score = score_named(name)
    head, relation = made_rows(2, 8)
    relation = score.prepare_relations(relation)
    tail = score.compose(head, relation)
    torch.testing.assert_close(score.decompose(relation, tail), head)
    torch.testing.assert_close(score.relate(head, tail), relation)
    assert score.score(head, relation, tail).item() == pytest.approx(0, abs=1e-6)
    assert (score.candidates(tail[None], made_rows(50, 8, seed=2)) < 0).all()


@BILINEAR
def test_where_coordinates_have_modulus_one_products_can_be_undone(score: Score) -> None:
    if score.reals == 2:
        head, relation = RotatE().prepare_relations(made_rows(2, 8))
    else:
        head, relation = made_rows(2, 8).sign()
    tail = score.compose(head, relation)
    torch.testing.assert_close(score.decompose(relation, tail), head)
    torch.testing.assert_close(score.relate(head, tail), relation)


@BILINEAR
def test_no_row_of_the_same_length_scores_higher_than_what_is_deduced(score: Bilinear) -> None:
    head, relation, tail = made_rows(3, 8)
    guesses = torch.nn.functional.normalize(made_rows(500, 8, seed=2), dim=-1)
    heads, relations = score.decompose(relation, tail), score.relate(head, tail)
    assert heads.norm().item() == pytest.approx(tail.norm().item(), rel=1e-5)
    between = (head.norm() + tail.norm()).item() / 2
    assert relations.norm().item() == pytest.approx(between, rel=1e-5)
    best = score.score(heads, relation, tail)
    assert (score.score(guesses * heads.norm(), relation, tail) < best).all()
    best = score.score(head, relations, tail)
    assert (score.score(head, guesses * relations.norm(), tail) < best).all()


@EVERY_SCORE
def test_deduced_rows_have_finite_gradients_even_at_zero(name: str) -> None:
    score = score_named(name)
    rows = torch.cat([made_rows(4, 6), torch.zeros(2, 6)]).requires_grad_()
    for function in (score.decompose, score.relate, score.compose):
        (flow,) = torch.autograd.grad(function(rows, rows.flip(0)).sum(), rows)
        assert flow.isfinite().all()
    (flow,) = torch.autograd.grad(score.score(rows, rows, rows).sum(), rows)
    assert flow.isfinite().all()


@EVERY_SCORE
def test_the_identity_leads_from_everything_to_itself(name: str) -> None:
    score = score_named(name)
    identity = score.identity(6)
    assert score.compose(made_rows(4, 6), score.prepare_relations(identity)).equal(made_rows(4, 6))


@EVERY_SCORE
def test_scoring_one_by_one_equals_scoring_in_bulk(name: str) -> None:
    score = score_named(name)
    heads, relations, tails = made_rows(3, 4, 6)
    bulk = score.score(heads[:, None], relations[:, None], tails[None])
    for i in range(4):
        for j in range(4):
            one = score.score(heads[i], relations[i], tails[j])
            assert math.isclose(bulk[i, j].item(), one.item(), rel_tol=1e-6, abs_tol=1e-6)


@EVERY_SCORE
def test_all_candidates_have_the_scores_of_their_facts(name: str) -> None:
    """Enough rows that a library would take a short cut for distances."""
    score = score_named(name)
    heads, tails = score.prepare_entities(made_rows(2, 60, 10))
    relations = score.prepare_relations(made_rows(60, 10, seed=2))
    tails[7] = score.compose(heads[3], relations[3])
    everything = score.candidates(score.compose(heads, relations), tails)
    one_by_one = score.score(heads[:, None], relations[:, None], tails[None])
    torch.testing.assert_close(everything, one_by_one, rtol=1e-5, atol=1e-5)
    product = score.compose(heads, relations) @ tails.T
    assert score.is_bilinear == torch.allclose(everything, product, atol=1e-4)


@EVERY_SCORE
def test_no_rows_have_no_scores(name: str) -> None:
    score = score_named(name)
    nothing = score.prepare_relations(torch.empty(0, 6))
    assert score.compose(nothing, nothing).shape == (0, 6)
    assert score.decompose(nothing, nothing).shape == (0, 6)
    assert score.relate(nothing, nothing).shape == (0, 6)
    assert score.candidates(nothing, made_rows(3, 6)).shape == (0, 3)


@EVERY_SCORE
def test_a_score_is_found_by_its_name(name: str) -> None:
    assert score_named(name).name == name


def test_an_unknown_score_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'transe'"):
        score_named("tranze")


@pytest.mark.parametrize("name", ["complex", "rotate"])
def test_complex_coordinates_need_an_even_dimension(name: str) -> None:
    assert score_of(paper_config(score=name, dim=6)).name == name
    with pytest.raises(SettingsError, match="dim = 7 is odd; choose an even --dim"):
        Model(paper_config(score=name, dim=7))
