"""The subgraph of an update: its local ids, its rows, and how it is chosen."""

from __future__ import annotations

import numpy as np
import torch

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts
from lkge.store.arrays import Patched
from lkge.store.subgraph import Subgraph, choose_subgraph, whole_graph


def facts(*triples: tuple[int, int, int]) -> Facts:
    return np.array(triples, dtype=np.int32).reshape(-1, 3)


def subgraph(*ids: int, num_old: int | None = None) -> Subgraph:
    return Subgraph(np.array(ids, dtype=np.int64), len(ids) if num_old is None else num_old)


def test_facts_get_the_numbers_of_their_rows() -> None:
    local = subgraph(2, 5, 7).local(facts((7, 4, 2), (5, 1, 5)))
    assert local.tolist() == [[2, 4, 0], [1, 1, 1]]
    assert local.dtype == np.int32


def test_a_small_graph_is_worked_on_whole() -> None:
    chosen = choose_subgraph(facts((0, 0, 1)), 50, 60, np.random.default_rng(0), 50)
    assert chosen.ids.tolist() == list(range(60))
    assert chosen.num_old == 50


def test_of_a_large_graph_what_is_named_what_is_new_and_a_pool() -> None:
    named = facts((7, 0, 900), (1001, 2, 33))
    chosen = choose_subgraph(named, 1000, 1003, np.random.default_rng(0), 20)
    assert {7, 900, 33, 1000, 1001, 1002} <= set(chosen.ids.tolist())
    assert (np.diff(chosen.ids) > 0).all()
    assert 20 <= chosen.num_old <= 23
    assert len(chosen) == chosen.num_old + 3


def test_known_answers_in_the_numbers_of_the_rows() -> None:
    answers = KnownFacts.build([facts((0, 0, 1), (0, 0, 3), (0, 0, 9), (4, 0, 1), (0, 2, 1))])
    found = subgraph(0, 1, 3, 4).known_facts(answers, facts((0, 0, 1)))
    asked = {(0, 0, 1), (0, 0, 2), (1, 1, 0), (1, 1, 3)}
    assert {tuple(fact) for fact in found.tolist()} == asked


def test_a_state_is_cut_to_the_old_rows_and_the_rest_is_whole() -> None:
    arrays = {
        "tables.entity": np.arange(12, dtype=np.float32).reshape(6, 2),
        "tables.relation": np.ones((4, 2), np.float32),
        "method.facts.entity": np.arange(6, dtype=np.float32),
    }
    cut = subgraph(1, 4, 6, num_old=2).rows(arrays)
    assert cut["tables.entity"].tolist() == [[2, 3], [8, 9]]
    assert cut["method.facts.entity"].tolist() == [1, 4]
    assert cut["tables.relation"].shape == (4, 2)
    cut["tables.entity"][0] = -1
    assert arrays["tables.entity"].min() == 0


def test_merged_rows_are_those_of_the_subgraph_and_the_others_stay() -> None:
    before = np.arange(12, dtype=np.float32).reshape(6, 2)
    chosen = subgraph(1, 4, 6, num_old=2)
    after = torch.tensor([[2.0, 3.0], [-1.0, -1.0], [9.0, 9.0]])
    merged = chosen.merged_arrays({"tables.entity": before}, {"tables.entity": after}, 6)
    table = merged["tables.entity"]
    assert isinstance(table, Patched)
    assert table.rows.tolist() == [4]
    expected = np.concatenate([before, [[9, 9]]])
    expected[4] = -1
    assert table.take(np.arange(7)).tolist() == expected.tolist()
    fresh = chosen.merged_arrays({}, {"new.entity": after, "other": after}, 6)
    new = fresh["new.entity"]
    assert isinstance(new, Patched)
    assert new.take(np.arange(7)).any(axis=1).tolist() == [0, 1, 0, 0, 1, 0, 1]
    assert np.array_equal(fresh["other"], after)


def test_whole_graph() -> None:
    assert whole_graph(2, 4).ids.tolist() == [0, 1, 2, 3]
    assert whole_graph(2, 4).num_old == 2
