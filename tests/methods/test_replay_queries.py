"""Which questions have been asked how often."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.data.snapshots import Facts
from lkge.methods.replay_queries import QueryCounts


def facts(*rows: tuple[int, int, int]) -> Facts:
    return np.array(rows, dtype=np.int32).reshape(-1, 3)


ONE = facts((0, 0, 1), (0, 0, 2), (3, 2, 1))
TWO = facts((0, 0, 4), (1, 1, 9))


def counted(profile: QueryCounts) -> dict[tuple[int, ...], int]:
    return {
        tuple(question): count
        for question, count in zip(profile.queries.tolist(), profile.counts.tolist(), strict=True)
    }


def test_a_fact_answers_a_question_in_each_direction() -> None:
    profile = QueryCounts().with_facts(ONE)
    assert counted(profile) == {(0, 0): 2, (1, 1): 1, (2, 1): 1, (3, 2): 1, (1, 3): 1}
    assert profile.counts.sum() == 2 * 3


def test_it_grows_and_does_not_depend_on_the_order() -> None:
    together = QueryCounts().with_facts(np.concatenate([TWO, ONE]))
    apart = QueryCounts().with_facts(ONE).with_facts(TWO)
    assert counted(together) == counted(apart)
    assert counted(apart)[0, 0] == 3
    assert counted(apart)[1, 1] == 2
    assert together.queries.tolist() == sorted(together.queries.tolist())


def test_what_is_withdrawn_leaves_no_trace() -> None:
    grown = QueryCounts().with_facts(ONE).with_facts(TWO)
    assert counted(grown.without(TWO)) == counted(QueryCounts().with_facts(ONE))
    unknown = facts((7, 0, 8))
    assert counted(grown.without(unknown)) == counted(grown)


def test_no_object_is_kept() -> None:
    """Two graphs that differ only by who answers have one profile for the questions asked."""
    one, other = (QueryCounts().with_facts(facts((0, 0, o), (5, 0, o))) for o in (1, 2))
    asked = [(0, 0), (5, 0)]
    assert [counted(one)[q] for q in asked] == [counted(other)[q] for q in asked]
    assert set(one.named()) == {"profile.queries", "profile.counts"}


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_questions_are_drawn_as_often_as_they_were_answered(size: int) -> None:
    profile = QueryCounts().with_facts(ONE).with_facts(TWO)
    asked, shares = profile.draw(size, np.random.default_rng(0))
    assert len(np.unique(asked, axis=0)) == len(asked) == len(shares)
    assert float(shares.sum()) == pytest.approx(1)
    if size == 5000:
        total = profile.counts.sum()
        drawn = dict(zip(map(tuple, asked.tolist()), shares.tolist(), strict=True))
        expected = {question: count / total for question, count in counted(profile).items()}
        assert drawn == pytest.approx(expected, abs=1e-3)


def test_every_draw_is_another() -> None:
    profile = QueryCounts().with_facts(facts(*((k, 0, k + 1) for k in range(0, 200, 2))))
    draws = {
        tuple(profile.draw(10, np.random.default_rng(seed))[0][:, 0].tolist()) for seed in (0, 0, 1)
    }
    assert len(draws) == 2


def test_it_survives_a_file() -> None:
    profile = QueryCounts().with_facts(ONE)
    assert counted(QueryCounts.from_named(profile.named())) == counted(profile)
