"""A few rows stand for the whole graph, and nothing of it is lost."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.store import working
from lkge.store.working import Rows, all_rows, working_rows


def facts(*triples: tuple[int, int, int]) -> Facts:
    return np.array(triples, dtype=np.int32).reshape(-1, 3)


def rows(*ids: int, num_old: int | None = None) -> Rows:
    return Rows(np.array(ids, dtype=np.int64), len(ids) if num_old is None else num_old)


def test_facts_get_the_numbers_of_their_rows() -> None:
    local = rows(2, 5, 7).local(facts((7, 4, 2), (5, 1, 5)))
    assert local.tolist() == [[2, 4, 0], [1, 1, 1]]
    assert local.dtype == np.int32


def test_a_small_graph_is_worked_on_whole() -> None:
    chosen = working_rows(facts((0, 0, 1)), 50, 60, np.random.default_rng(0))
    assert chosen.ids.tolist() == list(range(60))
    assert chosen.num_old == 50


def test_of_a_large_graph_what_is_named_what_is_new_and_a_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(working, "POOL", 20)
    monkeypatch.setattr(working, "POOL_PER_FACT", 2)
    named = facts((7, 0, 900), (1001, 2, 33))
    chosen = working_rows(named, 1000, 1003, np.random.default_rng(0))
    assert {7, 900, 33, 1000, 1001, 1002} <= set(chosen.ids.tolist())
    assert (np.diff(chosen.ids) > 0).all()
    assert 20 <= chosen.num_old <= 23
    assert len(chosen) == chosen.num_old + 3
    many = working_rows(
        facts(*((k, 0, k) for k in range(100))), 1000, 1000, np.random.default_rng(0)
    )
    assert many.num_old >= 200


def test_known_answers_in_the_numbers_of_the_rows() -> None:
    answers = KnownFacts.build([facts((0, 0, 1), (0, 0, 3), (0, 0, 9), (4, 0, 1), (0, 2, 1))])
    found = rows(0, 1, 3, 4).known(answers, facts((0, 0, 1)))
    asked = {(0, 0, 1), (0, 0, 2), (1, 1, 0), (1, 1, 3)}
    assert {tuple(fact) for fact in found.tolist()} == asked


def test_a_state_is_cut_to_the_old_rows_and_the_rest_is_whole() -> None:
    arrays = {
        "tables.entity": np.arange(12, dtype=np.float32).reshape(6, 2),
        "tables.relation": np.ones((4, 2), np.float32),
        "method.facts.entity": np.arange(6, dtype=np.float32),
    }
    cut = rows(1, 4, 6, num_old=2).of_state(arrays)
    assert cut["tables.entity"].tolist() == [[2, 3], [8, 9]]
    assert cut["method.facts.entity"].tolist() == [1, 4]
    assert cut["tables.relation"].shape == (4, 2)
    cut["tables.entity"][0] = -1
    assert arrays["tables.entity"].min() == 0


def test_all_rows() -> None:
    assert all_rows(2, 4).ids.tolist() == [0, 1, 2, 3]
    assert all_rows(2, 4).num_old == 2
