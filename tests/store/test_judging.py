"""Plausibility, known answers and range, against plain counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backends.made import NUMBA

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.errors import DataError
from lkge.models.predictor import TablePredictor
from lkge.models.scores import score_named
from lkge.store import judging
from lkge.store.answer_list import AnswerList
from lkge.store.calibration import UNKNOWN, Calibration
from lkge.store.judging import Judge

CALIBRATION = Calibration(100, 2.0, (0.5, 0.8, -0.2), (0, 2), (0.3, -0.3))
BORN_IN, KNOWS = 0, 2


def facts_of(pairs: list[tuple[int, int]], relation: int) -> Facts:
    return np.array([(s, relation, o) for s, o in pairs], dtype=np.int32).reshape(-1, 3)


def judge_of(*facts: Facts, keeps_known: bool = True) -> Judge:
    return Judge(KnownFacts.build(facts), CALIBRATION, keeps_known)


def births() -> Facts:
    """Thirty people, each with one birthplace of three."""
    return facts_of([(k, 40 + k % 3) for k in range(30)], BORN_IN)


def friends() -> Facts:
    """Person k knows k % 5 others."""
    return facts_of(
        [(k, (k + step) % 30) for k in range(30) for step in range(1, k % 5 + 1)], KNOWS
    )


def test_a_relation_with_one_answer_is_complete_and_one_with_many_is_not() -> None:
    judge = judge_of(births(), friends())
    assert judge.incompleteness(BORN_IN, 0) == 1
    assert judge.incompleteness(BORN_IN, 1) == pytest.approx(1 / 31)
    assert judge.incompleteness(KNOWS, 1) == 1
    assert judge.incompleteness(KNOWS, 4) == pytest.approx(1 / 7)
    assert judge.incompleteness(BORN_IN + 1, 10) == pytest.approx(1 / 4)
    assert judge.incompleteness(99, 3) == 1


def test_a_second_answer_is_less_plausible_where_there_is_one() -> None:
    """A known answer is judged as if it were not known."""
    judge = judge_of(births())
    scores = np.linspace(-3, 0, 50, dtype=np.float32)
    known = np.array([40], dtype=np.int32)
    chosen = np.array([49, 48, 40])
    judged = judge.judged((0, BORN_IN), scores, chosen, scores[chosen], known)
    features = AnswerList.of(scores, known).features(
        scores[chosen], np.array([True, True, False]), CALIBRATION.temperature
    )
    expected = CALIBRATION.plausibility(features, BORN_IN) * [1 / 31, 1 / 31, 1]
    np.testing.assert_allclose(judged.plausibility, expected)
    assert judged.known.tolist() == [False, False, True]
    first = judge.judged((35, BORN_IN), scores, chosen, scores[chosen], known[:0])
    assert first.plausibility[0] > 20 * judged.plausibility[0]


def test_the_range_is_what_known_facts_have_in_that_place() -> None:
    judge = judge_of(births(), friends())
    everyone = np.arange(50)
    assert judge.range_of(BORN_IN).tolist() == [40, 41, 42]
    assert np.flatnonzero(judge.in_range(everyone, BORN_IN)).tolist() == [40, 41, 42]
    assert judge.range_of(BORN_IN + 1).tolist() == list(range(30))
    assert np.flatnonzero(judge.in_range(everyone, BORN_IN + 1)).tolist() == list(range(30))
    assert judge.range_of(8).tolist() == []


def test_without_known_facts_there_is_no_range() -> None:
    judge = judge_of(keeps_known=False)
    assert judge.in_range(np.arange(3), BORN_IN).all()
    assert judge.incompleteness(BORN_IN, 0) == 1
    with pytest.raises(DataError, match="needs the known facts"):
        judge.range_of(BORN_IN)


def test_facts_are_judged_in_the_list_of_their_query(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    entity, relation = (
        torch.randn(50, 8, generator=generator),
        torch.randn(4, 8, generator=generator),
    )
    predictor = TablePredictor(entity, relation, score_named("transe"), NUMBA)
    judge = judge_of(births(), friends())
    asked = np.concatenate(
        [births()[::4], friends()[::9], births()[::-3] + np.array([0, 2, -1], np.int32)]
    )
    expected = []
    for subject, number, object_ in asked.tolist():
        known = judge.answers.of(subject, number, 9)
        scores = predictor.candidate_scores(subject, number)
        chosen = np.array([object_])
        expected.append(judge.judged((subject, number), scores, chosen, scores[chosen], known))
    for at_once in (1, 130, 1 << 20):
        monkeypatch.setattr(judging, "SCORES_AT_ONCE", at_once)
        found = judge.facts(predictor, asked, 50, until=9)
        np.testing.assert_allclose(
            found.plausibility, np.concatenate([one.plausibility for one in expected]), rtol=1e-6
        )
        assert found.known.tolist() == [bool(one.known[0]) for one in expected]
        assert found.in_range.tolist() == [bool(one.in_range[0]) for one in expected]
    assert [len(column) for column in judge.facts(predictor, asked[:0], 50, 9)] == [0, 0, 0]


def test_the_prior_is_used_without_a_calibration() -> None:
    judge = Judge(KnownFacts.build([births()]), UNKNOWN, keeps_known=True)
    scores = np.linspace(0, 1, 50, dtype=np.float32) ** 9
    chosen = np.array([49, 48])
    judged = judge.judged((35, BORN_IN), scores, chosen, scores[chosen], np.empty(0, np.int32))
    assert judged.plausibility == pytest.approx([1 / (1 + np.e), 1 / (1 + np.exp(1) * 2**1.5)])
