"""Learning all known facts at once, from scratch."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.store.living import QUICK, bridge, bytes_of_version, made, ring
from tests.store.test_kill import killing
from tests.store.test_living import NEWCOMERS, Unplugged

from lkge.data.snapshots import among
from lkge.errors import RunError
from lkge.living import init, open
from lkge.store.graph import LivingGraph
from lkge.store.inbox import accept, waiting
from lkge.store.records import StoreConfig
from lkge.store.relearn import relearning
from lkge.training.events import EpochFinished, Event, VersionPublished, ignore


def two_versions(folder: Path, **changes: object) -> LivingGraph:
    graph = made(folder, **changes)
    graph.add(NEWCOMERS, valid=0.3)
    return graph


def test_it_is_a_new_version_of_the_same_facts_and_names(tmp_path: Path) -> None:
    graph = two_versions(tmp_path / "KG")
    before = graph.reader
    events: list[Event] = []
    record = graph.relearn(events.append)
    after = graph.reader
    assert (record.version, record.kind, record.facts, record.batch) == (3, "relearn", 0, 0)
    assert (record.new_entities, record.new_relations) == (0, 0)
    assert (record.entities, record.known_facts) == (50, 160)
    assert np.isnan(record.drift)
    assert record.full, "no consolidation is due after it"
    assert record.touched_facts.facts == 0
    assert events[-1] == VersionPublished(3, 0)
    for name, array in before.answers.arrays().items():
        assert np.array_equal(array, after.answers.arrays()[name]), "each fact keeps its version"
    assert after.names.entity_id("person 45") == before.names.entity_id("person 45")
    assert np.array_equal(after.hold_out.facts, before.hold_out.facts)
    tables = (each.model_arrays["tables.entity"] for each in (before, after))
    assert not np.equal(*tables).all(axis=1).any(), "every row is learned anew"
    assert graph.check() == []
    assert graph.add(bridge(0, 60, 3)).version == 4


def test_it_trains_on_all_known_facts_but_those_held_out(tmp_path: Path) -> None:
    graph = two_versions(tmp_path / "KG")
    config = StoreConfig(hold_out_fraction=0.2)
    split = relearning(graph.reader, config, ignore).split()
    held = graph.reader.hold_out.facts
    assert len(held) > 10
    assert not among(split.train, held).any()
    assert not among(split.valid, held).any()
    assert not among(split.train, split.valid).any()
    assert len(split.train) + len(split.valid) + len(held) == graph.reader.num_facts
    assert len(split.valid) == round(0.1 * (160 - len(held)))
    assert graph.reader.answers.contains(np.concatenate([split.train, split.valid])).all()
    assert set(split.train[:, (0, 2)].ravel().tolist()) == set(range(50))
    few = relearning(graph.reader, StoreConfig(), ignore).split()
    assert len(few.valid) == 0, "too few to stop by"


def test_retracted_facts_are_not_learned_again(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=30, learning_rate=0.02)
    gone = ring(0, 40)[:6]
    graph.add([], retract=gone)
    split = relearning(graph.reader, StoreConfig(), ignore).split()
    assert not among(split.train, graph.reader.ids_of(gone)).any()
    assert graph.relearn().residue.facts == 6


def test_the_baseline_of_a_relearned_graph_is_what_it_reached(tmp_path: Path) -> None:
    graph = two_versions(tmp_path / "KG")
    graph.relearn()
    hold_out = graph.reader.hold_out
    assert np.array_equal(hold_out.baseline, hold_out.last)


@pytest.mark.parametrize("method", ["evergreen", "lkge", "si", "gem"])
def test_an_interrupted_relearning_goes_on_to_the_same_bytes(tmp_path: Path, method: str) -> None:
    graph = made(tmp_path / "KG", method=method, max_epochs=6)
    shutil.copytree(tmp_path / "KG", tmp_path / "twin")
    open(tmp_path / "twin").relearn()
    graph.store_config = StoreConfig(seconds_between_checkpoints=0.0)
    epochs = []

    def unplug(event: Event) -> None:
        if isinstance(event, EpochFinished):
            epochs.append(event.epoch)
            if len(epochs) == 3:
                raise Unplugged

    with pytest.raises(Unplugged):
        graph.relearn(unplug)
    again = open(tmp_path / "KG")
    assert again.version == 1
    again.relearn(lambda e: epochs.append(e.epoch) if isinstance(e, EpochFinished) else None)
    assert epochs[:4] == [1, 2, 3, 3], "it goes on behind the last epoch that was saved"
    assert bytes_of_version(again, 2) == bytes_of_version(open(tmp_path / "twin"), 2)
    assert not list((tmp_path / "KG" / "learning").glob("*"))


def test_a_checkpoint_of_an_older_version_is_not_used(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=6)
    graph.store_config = StoreConfig(seconds_between_checkpoints=0.0)

    def unplug(event: Event) -> None:
        if isinstance(event, EpochFinished):
            raise Unplugged

    for _ in range(2):
        with pytest.raises(Unplugged):
            graph.relearn(lambda e: unplug(e) if getattr(e, "epoch", 0) > 1 else None)
    assert [path.name for path in (tmp_path / "KG" / "learning").glob("*")] == ["000001-relearn"]
    graph.add(NEWCOMERS)
    graph.relearn()
    assert graph.version == 3
    assert not list((tmp_path / "KG" / "learning").glob("*"))


def test_facts_that_wait_stay_in_the_inbox(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=2)
    accept(graph.store, NEWCOMERS)
    assert graph.relearn().known_facts == 120
    assert len(waiting(graph.store)) == 1
    (record,) = graph.learn_waiting()
    assert (record.version, record.known_facts) == (3, 160)


def test_without_known_facts_it_is_an_error(tmp_path: Path) -> None:
    graph = init(tmp_path / "none", known=False, **QUICK)
    graph.add(ring(0, 10))
    with pytest.raises(RunError, match=r"keeps no known facts \(--no-known\).*`lkge init`"):
        graph.relearn()
    with pytest.raises(RunError, match="has no known fact; add some"):
        init(tmp_path / "empty", **QUICK).relearn()
    assert graph.version == 1


def test_nothing_is_lost_whenever_a_relearning_is_killed(tmp_path: Path) -> None:
    assert int(killing("relearn", 5, 5, tmp_path)) > 0, "no process was killed while it learned"
