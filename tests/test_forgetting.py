"""`scripts/forgetting.py` counts what the results count, and knows what is answered again."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from tests.scripts import script_named

from lkge import GrowingGraph, Results, RunConfig, api
from lkge.data.snapshots import with_inverses
from lkge.training.loop import Loop

FEW = {"dim": 16, "batch_size": 256, "learning_rate": 0.01, "max_epochs": 1}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with script_named("forgetting") as module:
        yield module


Watched = tuple[GrowingGraph, Results, list[tuple[np.ndarray, np.ndarray, np.ndarray]], str]


@pytest.fixture(scope="module")
def watched(script: ModuleType) -> Watched:
    graph = api.load("brick")
    witness = script.Witness(graph)
    method = script.witnessed("fine-tune", witness).name
    results = Loop(graph, RunConfig().with_changes({**FEW, "method": method})).run().results
    asked = witness.asked()
    return graph, results, asked, script.table(asked, witness.mrr())


def test_its_first_and_last_view_are_the_two_protocols(watched: Watched) -> None:
    _, results, asked, _ = watched
    for place, protocol in ((0, "paper"), (2, "current")):
        found = np.mean([(last[:, place] - first[:, place]).mean() for first, last, _ in asked])
        assert found == pytest.approx(results.protocols[protocol].bwt)


def test_it_tells_the_mrr_of_the_last_model(watched: Watched) -> None:
    _, results, _, table = watched
    assert f"(`paper`) | {results.mrr:.4f} |" in table
    assert f"(`current`) | {results.protocols['current'].final.mrr:.4f} |" in table


def test_where_validation_facts_are_asked_about_no_filter_knows_a_test_fact(
    script: ModuleType,
) -> None:
    graph = api.load("brick")
    first = graph.snapshots[0]
    witness = script.Witness(graph, valid=True)
    assert len(witness._known(first)) == len(first.train) + len(first.valid)
    assert witness._questions(first).tolist() == with_inverses(first.valid).tolist()


def test_a_question_is_answered_again_by_later_training_facts_only(watched: Watched) -> None:
    graph, _, asked, _ = watched
    for j, (_, _, again) in enumerate(asked):
        later = {
            (h, r)
            for snapshot in graph.snapshots[j + 1 :]
            for h, r, _ in with_inverses(snapshot.train).tolist()
        }
        tests = with_inverses(graph.snapshots[j].test).tolist()
        assert again.tolist() == [(h, r) in later for h, r, _ in tests]
        assert again.any() == (not again.all())


def test_a_larger_filter_helps_only_where_questions_are_answered_again(watched: Watched) -> None:
    *_, asked, table = watched
    for _, last, again in asked:
        assert (last[:, 1] >= last[:, 0]).all()
        assert (last[again, 1] > last[again, 0]).any()
    assert table.count("\n") == 5
    assert "`paper`" in table
