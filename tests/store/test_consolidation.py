"""Updates with replay of known facts: consolidation, retraction, and graphs that keep no facts."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import lkge
from lkge.errors import SettingsError, StoreLocked
from lkge.store.background import start_consolidation
from lkge.store.graph import LivingGraph
from lkge.store.locks import writing
from lkge.store.records import ADD, CONSOLIDATE, INIT
from lkge.training.events import Event, Waiting

QUICK = {"dim": 16, "max_epochs": 8, "backend": "torch", "batch_size": 50}


def facts(start: int, count: int) -> list[tuple[str, str, str]]:
    """Facts of a graph in which number n is part of n modulo 7 and before n + 1."""
    numbers = range(start, start + count)
    return [
        fact
        for n in numbers
        for fact in ((f"n{n}", "class", f"c{n % 7}"), (f"n{n}", "before", f"n{n + 1}"))
    ]


def made(folder: Path, **changes: object) -> LivingGraph:
    graph = lkge.init(folder, **{**QUICK, **changes})  # type: ignore[arg-type]
    graph.add(facts(0, 60))
    return graph


def kinds(graph: LivingGraph) -> list[str]:
    return [record.kind for record in graph.log()]


def test_small_adds_lead_to_a_consolidation_of_its_own_version(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", consolidate_after=0.1)
    assert graph.log()[1].full, "the first batch is all there is"
    graph.add(facts(61, 4))
    assert kinds(graph) == [INIT, ADD, ADD]
    record = graph.add(facts(66, 4))
    assert kinds(graph) == [INIT, ADD, ADD, ADD, CONSOLIDATE]
    assert record.kind == ADD, "the answer to an add is its own line of the log"
    last = graph.log()[-1]
    assert (last.facts, last.full, last.epochs) == (0, True, 4)
    assert last.known_facts == graph.log()[-2].known_facts
    graph.add(facts(71, 4))
    assert kinds(graph)[-1] == ADD, "the count begins anew"


def test_a_large_add_counts_as_a_consolidation(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", consolidate_after=0.12)
    graph.add(facts(61, 30))
    assert kinds(graph) == [INIT, ADD, ADD]
    assert graph.log()[-1].full


def test_a_consolidation_gives_the_same_bytes_again(tmp_path: Path) -> None:
    tables = []
    for name in ("one", "two"):
        graph = made(tmp_path / name, consolidate_after=0.05)
        graph.add(facts(61, 5))
        assert kinds(graph)[-1] == CONSOLIDATE
        tables.append(graph.reader.model_arrays["tables.entity"])
    assert np.array_equal(*tables)


def test_a_consolidation_that_is_put_off_comes_before_the_next_batch(tmp_path: Path) -> None:
    at_once = made(tmp_path / "at once", consolidate_after=0.05)
    later = made(tmp_path / "later", consolidate_after=0.05)
    for graph in (at_once, later):
        graph.add(facts(61, 5), consolidate=graph is at_once)
    assert (at_once.consolidation_due, later.consolidation_due) == (False, True)
    assert kinds(later) == [INIT, ADD, ADD]
    for graph in (at_once, later):
        graph.add(facts(70, 1))
        assert kinds(graph) == [INIT, ADD, ADD, CONSOLIDATE, ADD]
    tables = [graph.reader.model_arrays["tables.entity"] for graph in (at_once, later)]
    assert np.array_equal(*tables)
    assert later.consolidate() is None, "nothing is due"


def test_a_process_consolidates_in_the_background(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", consolidate_after=0.05)
    graph.add(facts(61, 5), consolidate=False)
    start_consolidation(graph.store.folder)
    deadline = time.monotonic() + 120
    while not graph.refresh() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert kinds(graph) == [INIT, ADD, ADD, CONSOLIDATE]


def test_a_writer_waits_for_a_consolidation_and_for_no_other_writer(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    events: list[Event] = []
    release = threading.Event()

    def hold(command: str, held: threading.Event) -> None:
        with writing(graph.store, command):
            held.set()
            release.wait(60)

    for command in (CONSOLIDATE, ADD):
        held = threading.Event()
        release.clear()
        thread = threading.Thread(target=hold, args=(command, held))
        thread.start()
        held.wait(60)
        if command == ADD:
            with pytest.raises(StoreLocked, match="being written by process"):
                graph.tag("mine")
        else:
            threading.Timer(0.3, release.set).start()
            graph.add(facts(61, 1), listener=events.append)
        release.set()
        thread.join()
    assert [type(event) for event in events].count(Waiting) == 1
    assert "consolidate" in next(event.holder for event in events if isinstance(event, Waiting))


def test_old_facts_stay_where_nothing_is_replayed_they_fall(tmp_path: Path) -> None:
    asked = [("n10", "class", "c3"), ("n20", "class", "c6"), ("n30", "class", "c2")]
    ranks = {}
    for memory in ("facts", "none"):
        graph = made(tmp_path / memory, memory=memory, replay_weight=0.0, consolidate_after=0.0)
        for day in range(6):
            graph.add([(f"x{day}-{i}", "class", "c0") for i in range(10)])
        best = [graph.predict(subject=s, relation=r, k=1)[0].entity == o for s, r, o in asked]
        ranks[memory] = sum(best)
    assert ranks["facts"] == 3 > ranks["none"]


def test_a_retracted_fact_falls_and_others_of_its_entities_stay(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", max_epochs=20)
    gone, kept = ("n10", "class", "c3"), ("n10", "before", "n11")
    before = [score.score for score in graph.score([gone, kept])]
    graph.add([], retract=[gone])
    after = [score.score for score in graph.score([gone, kept])]
    assert after[0] < before[0]
    assert after[1] > before[1] - 0.2 * abs(before[1])
    assert graph.predict(subject="n10", relation="before", k=1)[0].entity == "n11"


def test_without_known_facts_nothing_is_replayed(tmp_path: Path) -> None:
    graph = lkge.init(tmp_path / "KG", known=False, **QUICK)
    assert graph.config.get("method.memory") == "none"
    graph.add(facts(0, 20))
    assert kinds(graph) == [INIT, ADD]


def test_facts_cannot_be_replayed_with_another_method(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no setting 'memory' for method 'ewc'"):
        lkge.init(tmp_path / "KG", method="ewc", memory="facts")
