"""Scores over arrays are those over tensors, and so are the answers of a predictor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lkge.backends import backend_for
from lkge.data.known_facts import KnownFacts
from lkge.errors import UnknownName
from lkge.models import array_scores
from lkge.models.array_predictor import ArrayPredictor
from lkge.models.array_scores import ARRAY_SCORES, array_score_named, exact_cosines
from lkge.models.predictor import TablePredictor, View
from lkge.models.scores import SCORES, score_named

EVERY_SCORE = pytest.mark.parametrize("name", sorted(SCORES))
FACTS = np.array([[0, 1, 2], [3, 0, 4], [5, 2, 0]], dtype=np.int32)


def predictors(name: str) -> tuple[TablePredictor, ArrayPredictor]:
    draw = np.random.default_rng(7).standard_normal
    entity, relation = draw((6, 8), np.float32), draw((3, 8), np.float32)
    score, backend = score_named(name), backend_for("torch", "cpu")
    tensors = TablePredictor(torch.from_numpy(entity), torch.from_numpy(relation), score, backend)
    return tensors, ArrayPredictor(entity, relation, array_score_named(name))


def test_there_is_one_for_every_score() -> None:
    assert ARRAY_SCORES.keys() == SCORES.keys()
    for name, score in SCORES.items():
        assert ARRAY_SCORES[name].is_bilinear == score.is_bilinear


@EVERY_SCORE
@pytest.mark.parametrize("block", [1, 20, 1 << 16])
def test_the_scores_are_those_of_torch(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_scores, "BLOCK", block)
    tensors, arrays = predictors(name)
    for ask in ("query_scores", "fact_scores"):
        given, wanted = getattr(arrays, ask)(FACTS), getattr(tensors, ask)(FACTS)
        assert given.dtype == np.float32
        np.testing.assert_allclose(given, wanted, rtol=2e-5, atol=2e-6)
    one = arrays.candidate_scores(3, 0)
    np.testing.assert_allclose(one, arrays.query_scores(FACTS)[1], rtol=1e-5, atol=1e-6)


def test_an_unknown_score_is_named() -> None:
    with pytest.raises(UnknownName, match="there is no score named 'transh'"):
        array_score_named("transh")


@EVERY_SCORE
def test_it_ranks_as_tensors_do(name: str) -> None:
    tensors, arrays = predictors(name)
    known = KnownFacts.build([FACTS])
    views = [View(6, 0), View(5, 0)]
    given, wanted = (each.ranks(FACTS, views, known) for each in (arrays, tensors))
    np.testing.assert_array_equal(given, wanted)


@EVERY_SCORE
def test_its_best_answers_are_those_of_tensors(name: str) -> None:
    left = np.array([True, True, False, True, True, True])
    for ask in ("best", "nearest"):
        query = (3, 0) if ask == "best" else (3,)
        given, wanted = (getattr(each, ask)(*query, 4, left) for each in predictors(name)[::-1])
        np.testing.assert_array_equal(given.places, wanted.places)
        np.testing.assert_allclose(given.scores, wanted.scores, rtol=1e-5, atol=1e-6)


def test_a_row_of_zeros_has_cosines_of_zero() -> None:
    rows = np.array([[0, 0], [1, 2]], np.float32)
    for query in rows:
        assert exact_cosines(query, rows)[0] == 0
