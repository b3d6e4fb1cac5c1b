"""Evergreen with memory = "facts": what an update replays, and what it costs."""

from pathlib import Path

import numpy as np
import pytest

import lkge
from lkge.configure import configure
from lkge.data.history import BYTES_PER_FACT, History
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import among, no_facts
from lkge.methods.evergreen import Evergreen
from lkge.methods.fact_replay import FactReplay, FactReplayConfig
from lkge.testing.graphs import growing_graph

GENERATOR = np.random.default_rng(1)
KNOWN = np.unique((GENERATOR.integers(0, 60, (3000, 3)) * [1, 0, 1]).astype(np.int32), axis=0)
HISTORY = History(KnownFacts.build([KNOWN]))
CONFIG = FactReplayConfig(min_replayed=50)
NEW = np.array([[61, 0, number] for number in range(40)], np.int32)


def rng() -> np.random.Generator:
    return np.random.default_rng(2)


def test_a_small_update_replays_in_proportion_to_what_is_new() -> None:
    replay = FactReplay(CONFIG, HISTORY, NEW, no_facts())
    assert replay.small
    assert 60 < len(replay.facts(rng())) <= 80
    one = FactReplay(CONFIG, HISTORY, NEW[:1], no_facts())
    assert len(one.facts(rng())) <= 50


def test_a_large_update_replays_all() -> None:
    shifts = [np.array([0, 0, 40 * part], np.int32) for part in range(6)]
    new = np.concatenate([NEW + shift for shift in shifts])
    replay = FactReplay(CONFIG, HISTORY, new, no_facts())
    assert not replay.small
    assert np.array_equal(replay.facts(rng()), KNOWN)


def test_facts_of_the_entities_of_a_retracted_fact_are_replayed() -> None:
    gone = KNOWN[:1]
    history = History(KnownFacts.build([KNOWN]), excluded=gone)
    config = FactReplayConfig(min_replayed=0)
    replayed = FactReplay(config, history, no_facts(), gone).facts(rng())
    named = np.isin(KNOWN[:, (0, 2)], gone[0, (0, 2)]).any(axis=1)
    assert np.array_equal(replayed, KNOWN[named][1:])


def test_the_pool_has_what_the_epochs_draw() -> None:
    replay = FactReplay(CONFIG, HISTORY, NEW, no_facts())
    pool = replay.pool(100, rng())
    assert len(replay.facts(rng())) < len(pool) <= 80 * replay.epochs(100)
    assert among(pool, KNOWN).all()


def test_few_facts_get_more_epochs() -> None:
    few = FactReplay(CONFIG, HISTORY, NEW[:1], no_facts())
    assert few.epochs(batch_size=1000) == CONFIG.min_update_steps
    assert few.epochs(batch_size=2) == CONFIG.update_epochs


def test_consolidation_is_due_when_small_updates_add_up() -> None:
    config = configure({"memory": "facts", "consolidate_after": 0.1, "consolidation_epochs": 3})
    method = Evergreen(config)
    assert method.consolidation_epochs(new=99, known=1000) == 0
    assert method.consolidation_epochs(new=100, known=1000) == 3
    assert Evergreen(configure()).consolidation_epochs(1000, 1000) == 0, "it keeps no facts"
    never = Evergreen(config.with_changes({"consolidate_after": 0.0}))
    assert never.consolidation_epochs(1000, 1000) == 0


def test_a_run_reports_the_facts_that_it_carries(tmp_path: Path) -> None:
    graph = growing_graph((30, 40), (2, 2))
    quick = {"dim": 8, "max_epochs": 2, "backend": "torch"}
    facts = lkge.run(graph, memory="facts", **quick).results
    none = lkge.run(graph, memory="none", **quick).results
    learned = np.cumsum([len(snapshot.train) for snapshot in graph.snapshots])
    carried = [record.carried_bytes for record in facts.snapshots]
    without = [record.carried_bytes for record in none.snapshots]
    assert [a - b for a, b in zip(carried, without, strict=True)] == list(BYTES_PER_FACT * learned)


@pytest.mark.parametrize("memory", ["facts", "none"])
def test_both_learn_a_few_rows_alone(memory: str) -> None:
    assert Evergreen(configure({"memory": memory})).supports_partial_updates
