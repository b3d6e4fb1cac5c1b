"""A batch with nothing new leads to no version, and is never learned again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.faults import OPERATIONS, DeadDisk, FullDisk, PowerCut, failing
from tests.store.living import QUICK, made, ring
from tests.store.made import bytes_of

from lkge.errors import RunError
from lkge.living import init, open
from lkge.store import updater
from lkge.store.inbox import accept, waiting
from lkge.store.repairing import repair
from lkge.store.skipped import MAX_NOTES, SKIPPED, note_skipped, nothing_new, skipped_batches
from lkge.store.versions import MODEL
from lkge.training.events import BatchSkipped, EpochFinished, Event

KNOWN = ring(0, 40)[:7]
NEW = [("person 3", "knows 1", "person 30")]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph at version 1, which no test changes."""
    return made(tmp_path_factory.mktemp("original") / "KG", backend="torch").store.folder


@pytest.fixture
def kg(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "KG"))


def test_nothing_new_is_said_and_changes_no_version(kg: Path) -> None:
    graph, events = open(kg), list[Event]()
    before = bytes_of(kg / "versions")
    record = graph.add(KNOWN, retract=[("person 1", "knows 2", "nobody")], listener=events.append)
    message = "nothing new: all 7 facts are known, and the retracted fact is not known"
    assert (record.kind, record.is_version, record.version) == ("nothing", False, 1)
    assert (record.facts, record.retracted, record.batch) == (0, 0, 2)
    assert (record.entities, record.known_facts) == (40, 120)
    assert record.warnings == (message,)
    assert events == [BatchSkipped(2, message, failed=False)]
    assert bytes_of(kg / "versions") == before
    assert (graph.version, len(graph.log())) == (1, 2)
    assert waiting(graph.store) == graph.learn_waiting() == []
    assert graph.check() == []


@pytest.mark.parametrize(
    ("added", "retracted", "known", "message"),
    [
        (1, 0, True, "nothing new: the fact is known"),
        (1200, 0, True, "nothing new: all 1,200 facts are known"),
        (0, 1, True, "nothing new: the retracted fact is not known"),
        (0, 3, True, "nothing new: none of the 3 retracted facts is known"),
        (0, 3, False, "nothing new: nothing can be retracted, because this graph keeps no known"),
    ],
)
def test_the_message_counts(added: int, retracted: int, known: bool, message: str) -> None:
    assert nothing_new(added, retracted, known).startswith(message)


def test_without_known_facts_only_a_retraction_is_nothing_new(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", known=False, **{**QUICK, "backend": "torch"})
    graph.add(ring(0, 8))
    assert graph.add(ring(0, 8)).is_version
    record = graph.add([], retract=ring(0, 8))
    assert not record.is_version
    assert "keeps no known facts" in record.warnings[0]


def test_numbers_go_on_and_later_batches_are_learned(kg: Path) -> None:
    graph = open(kg)
    accept(graph.store, KNOWN)
    accept(graph.store, NEW)
    accept(graph.store, NEW)
    records = graph.learn_waiting()
    assert [(one.kind, one.batch, one.version) for one in records] == [
        ("nothing", 2, 1),
        ("add", 3, 2),
        ("nothing", 4, 2),
    ]
    assert accept(graph.store, NEW).number == 5
    assert sorted(graph.store.skipped) == [2, 4]


def test_a_batch_with_news_trains_and_one_without_does_not(kg: Path) -> None:
    epochs = list[Event]()

    def listen(event: Event) -> None:
        if isinstance(event, EpochFinished):
            epochs.append(event)

    graph = open(kg)
    graph.add(KNOWN, listener=listen)
    assert epochs == []
    graph.add([*KNOWN, *NEW], listener=listen)
    assert epochs


def test_a_batch_that_was_noted_but_not_removed_does_not_wait(
    kg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise PowerCut

    graph = open(kg)
    monkeypatch.setattr(updater, "discard", killed)
    with pytest.raises(PowerCut):
        graph.add(KNOWN)
    monkeypatch.undo()
    assert graph.store.batch_numbers() == [2]
    assert waiting(graph.store) == []
    assert open(kg).learn_waiting() == []
    assert graph.store.batch_numbers() == []
    assert accept(graph.store, KNOWN).number == 3


@pytest.mark.parametrize("make_disk", [FullDisk, DeadDisk])
def test_a_failure_at_any_moment_skips_the_batch_once(
    kg: Path, tmp_path: Path, make_disk: type[FullDisk]
) -> None:
    accept(open(kg).store, KNOWN)
    versions = bytes_of(kg / "versions")
    waited = []
    for calls in count():
        folder = Path(shutil.copytree(kg, tmp_path / f"{calls}"))
        graph, disk = open(folder), make_disk(calls)
        with failing(disk, *OPERATIONS), suppress(PowerCut, RunError):
            graph.learn_waiting()
        if not disk.failed:
            break
        assert graph.check() == []
        waited.append(len(waiting(graph.store)))
        graph.learn_waiting()
        assert (waiting(graph.store), graph.store.batch_numbers()) == ([], [])
        assert list(graph.store.skipped) == [2]
        assert bytes_of(folder / "versions") == versions
        assert accept(graph.store, NEW).number == 3
    assert calls > 3
    assert set(waited) == {0, 1}


def test_a_skipped_batch_hides_none_that_is_to_be_learned_again(kg: Path) -> None:
    """The version before the skipped batch is damaged: its own batch has a lower number."""
    graph = open(kg)
    graph.add(NEW, valid=0.0)
    graph.add(KNOWN)
    graph.store.paths(2, MODEL)[0].unlink()
    graph = open(kg)
    assert graph.version == 1
    assert repair(graph.store)
    assert [batch.number for batch in waiting(graph.store)] == [2]
    graph.learn_waiting()
    assert graph.version == 2
    assert graph.score(NEW)[0].known
    assert accept(graph.store, NEW).number == 4


def test_damaged_notes_are_found_and_set_aside(kg: Path) -> None:
    graph = open(kg)
    graph.add(KNOWN)
    path = kg / SKIPPED
    path.write_text(path.read_text().replace("nothing", "Nothing"))
    (damage,) = graph.check()
    assert damage.path == str(path)
    with pytest.raises(RunError, match="verify --repair"):
        waiting(graph.store)
    repair(graph.store)
    assert graph.check() == []
    assert graph.add(NEW).is_version


def test_only_the_last_notes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lkge.store.skipped.MAX_NOTES", 3)
    for number in (1, 2, 3, 4, 2):
        note_skipped(tmp_path, number, 0, "nothing new", "then")
    assert list(skipped_batches(tmp_path)) == [3, 4, 2]
    assert MAX_NOTES == 1000
