"""Batches that cannot be learned hold up no others; settings of a graph can change."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.store.living import made, ring
from typer.testing import CliRunner, Result

from lkge.cli import app
from lkge.errors import DamagedFile, DataError, LearningFailed, RunError, SettingsError
from lkge.living import init
from lkge.living import open as open_graph
from lkge.store import queue as queue_module
from lkge.store.graph import LivingGraph
from lkge.store.inbox import accept, waiting
from lkge.store.queue import queue, restore, set_aside
from lkge.store.update import Update
from lkge.store.updater import Updater
from lkge.training.events import BatchSkipped, Event
from lkge.training.trainer import Trainer

BAD = [("person 1", "knows 1", "bad")]
GOOD = [("person 1", "knows 1", "good")]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("original") / "KG", backend="torch").store.folder


@pytest.fixture
def kg(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "KG"))


@pytest.fixture
def diverging(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Training on facts about `bad` fails with the settings of `made`; the value undoes that."""
    run, rate = Update.run, []

    def failing(self: Update, *rest: Any) -> Any:
        rate.append(self.reader.config.training.learning_rate)
        if rate[-1] == rate[0] and any("bad" in fact for fact in self.batch.added):
            raise LearningFailed("the loss is no longer finite; lower training.learning_rate")
        return run(self, *rest)

    monkeypatch.setattr(Update, "run", failing)
    return lambda: monkeypatch.setattr(Update, "run", run)


def lkge(*words: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, words)))


def states(graph: LivingGraph) -> list[tuple[int, str]]:
    return [(batch.number, batch.state) for batch in graph.queue()]


def test_a_batch_that_cannot_be_learned_is_set_aside_and_the_next_is_learned(
    kg: Path, diverging: object
) -> None:
    graph, events = open_graph(kg), list[Event]()
    with pytest.raises(LearningFailed) as caught:
        graph.add(BAD, listener=events.append)
    assert f"lkge config {kg} --set training.learning_rate=0.15" in str(caught.value)
    assert f"lkge queue {kg} --restore 2" in str(caught.value)
    assert [event.failed for event in events if isinstance(event, BatchSkipped)] == [True]
    assert states(graph) == [(2, "set aside")]
    (batch,) = graph.queue()
    assert (batch.facts, batch.source) == (1, "python")
    assert "no longer finite" in batch.error
    assert graph.add(GOOD).version == 2
    assert graph.rollback(1).version == 3
    assert graph.check() == []


def test_batches_behind_one_that_fails_are_learned(kg: Path, diverging: object) -> None:
    graph = open_graph(kg)
    for facts in (BAD, GOOD):
        accept(graph.store, facts)
    failed, learned = graph.learn_waiting()
    assert (failed.kind, failed.batch, failed.is_version) == ("failed", 2, False)
    assert (learned.kind, learned.batch, learned.version) == ("add", 3, 2)
    assert waiting(graph.store) == []


def test_other_settings_and_the_batch_is_learned(kg: Path, diverging: object) -> None:
    graph = open_graph(kg)
    with pytest.raises(LearningFailed):
        graph.add(BAD)
    record = graph.configure({"training.learning_rate": 0.15})
    assert (record.kind, record.source) == ("config", "training.learning_rate=0.15")
    assert graph.restore(2) == 3
    assert states(graph) == [(3, "waiting")]
    (learned,) = graph.learn_waiting()
    assert (learned.version, learned.batch, learned.facts) == (3, 3, 1)
    assert states(graph) == []
    assert "restored as batch 3" in graph.store.skipped[2].message


def test_what_waits_can_be_set_aside_and_taken_back(kg: Path) -> None:
    graph = open_graph(kg)
    for facts in (BAD, GOOD):
        accept(graph.store, facts, retracted=ring(0, 40)[:1], source="a file")
    assert states(graph) == [(2, "waiting"), (3, "waiting")]
    with pytest.raises(RunError, match=r"lkge queue .* --set-aside"):
        graph.rollback(0)
    for number in (2, 3):
        graph.set_aside(number)
    assert states(graph) == [(2, "set aside"), (3, "set aside")]
    graph.rollback(0)
    assert graph.restore(3) == 4
    assert states(graph) == [(2, "set aside"), (4, "waiting")]
    before, after = (waiting(graph.store)[0], graph.queue()[1])
    assert list(before.added) == GOOD
    assert (after.facts, after.retracted, after.source) == (1, 1, "a file")
    for number, act in ((3, graph.restore), (9, graph.restore), (2, graph.set_aside)):
        with pytest.raises(RunError, match="`lkge queue` lists all"):
            act(number)


def test_an_edit_can_be_set_aside(kg: Path) -> None:
    graph = open_graph(kg)
    from lkge.store.edits import edit_of

    accept(graph.store, (), edit=edit_of(remove="person 3"))
    graph.set_aside(2)
    assert graph.queue()[0].edit == "remove 'person 3'"
    graph.restore(2)
    assert graph.learn_waiting()[0].kind == "edit"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 2}'])
def test_a_damaged_batch_holds_up_no_other(kg: Path, content: bytes) -> None:
    graph = open_graph(kg)
    accept(graph.store, BAD)
    graph.store.batch_file(2).write_bytes(content)
    assert states(graph) == [(2, "damaged")]
    assert graph.rollback(1).version == 2
    record = graph.add(GOOD)
    assert record.version == 3
    (batch,) = graph.queue()
    assert (batch.state, "damaged" in batch.error) == ("set aside", True)
    assert graph.store.set_aside_file(2).read_bytes() == content
    with pytest.raises(DamagedFile):
        graph.restore(2)


def test_a_batch_that_contradicts_itself_holds_up_no_other(
    kg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = open_graph(kg)
    accept(graph.store, BAD)

    def refuse(self: Update) -> None:
        raise DataError("an empty name")

    with monkeypatch.context() as patch:
        patch.setattr(Update, "split", refuse)
        (record,) = graph.learn_waiting()
    assert (record.kind, "an empty name" in record.warnings[0]) == ("failed", True)
    assert graph.add(GOOD).version == 2


@pytest.mark.parametrize("step", ["note_skipped", "remove"])
def test_a_crash_on_the_way_loses_no_batch_and_gives_no_number_twice(
    kg: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = open_graph(kg).store
    accept(store, BAD)
    if step == "remove":
        set_aside(store, 2, "")

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(queue_module, step, crash)
        with pytest.raises(KeyboardInterrupt):
            restore(store, 2) if step == "remove" else set_aside(store, 2, "")
    store.tidy()
    assert 2 in {batch.number for batch in queue(store)}
    assert accept(store, GOOD).number == (4 if step == "remove" else 3)


def test_embeddings_that_are_no_numbers_are_not_published(
    kg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Trainer.train

    def spoiling(self: Trainer) -> None:
        train(self)
        self.model.tables.entity[0, 0] = torch.nan

    monkeypatch.setattr(Trainer, "train", spoiling)
    graph = open_graph(kg)
    with pytest.raises(LearningFailed, match="embeddings are no longer finite"):
        graph.add(GOOD)
    assert graph.version == 1


def test_a_consolidation_that_fails_holds_up_no_batch(
    kg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = open_graph(kg)

    def fail(*_: object) -> None:
        raise LearningFailed("the loss is no longer finite")

    monkeypatch.setattr("lkge.store.updater.consolidation_due", lambda _: True)
    monkeypatch.setattr(Updater, "_consolidate", fail)
    assert graph.add(GOOD).version == 2


def test_settings_change_as_a_version_with_the_same_embeddings(kg: Path) -> None:
    graph = open_graph(kg)
    before, arrays = graph.config, graph.reader.contents()
    changes = {"training.learning_rate": 0.05, "max_epochs": 2}
    record = graph.configure(changes)
    assert record.source == "training.learning_rate=0.05, max_epochs=2"
    assert graph.config == before.with_changes(changes)
    for name, file in graph.reader.contents().items():
        assert all(np.array_equal(file[key], arrays[name][key]) for key in file)
    assert graph.check() == []
    assert graph.add(GOOD).version == 3
    graph.rollback(1)
    assert graph.config == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 16}, "model.dim = 8 stays"),
        ({"score": "distmult"}, "model.score = 'complex' stays"),
        ({"method": "lkge"}, "method.name = 'evergreen' stays"),
        ({"dataset": "other"}, r"dataset.name = .* stays"),
        ({"method.memory": "generative"}, "method.memory = 'facts' stays"),
        ({"training.seed": 3}, "has these settings already"),
        ({"training.learning_rate": -1.0}, "learning_rate = -1.0"),
        ({"nothing": 1}, "no setting 'nothing'"),
        ({}, "no setting is given"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    kg: Path, changes: dict[str, Any], message: str
) -> None:
    graph = open_graph(kg)
    with pytest.raises(SettingsError, match=message):
        graph.configure(changes)
    assert graph.version == 1


def test_settings_that_give_other_tables_are_refused(tmp_path: Path) -> None:
    quick = {"method": "dicgrl", "dim": 8, "max_epochs": 1}
    graph = init(tmp_path / "KG", **quick, **{"method.components": 4})  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"components.* stays.*lkge init"):
        graph.configure({"method.components": 2, "method.active_components": 1})


def test_facts_that_are_not_kept_cannot_be_replayed(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", known=False, dim=8)
    with pytest.raises(SettingsError, match="does not keep"):
        graph.configure({"method.memory": "facts"})


# The commands


def test_the_queue_on_the_command_line(kg: Path, tmp_path: Path, diverging: object) -> None:
    file = tmp_path / "bad.tsv"
    file.write_text("\t".join(BAD[0]) + "\n", encoding="utf-8")
    assert "Nothing waits" in lkge("queue", kg).stdout
    failed = lkge("add", kg, file, "--quiet")
    assert failed.exit_code == 2
    assert "lkge config" in failed.stderr
    assert "lkge queue" in failed.stderr
    (listed,) = json.loads(lkge("queue", kg, "--json").stdout)
    assert (listed["number"], listed["state"], listed["source"]) == (2, "set aside", "bad.tsv")
    shown = " ".join(lkge("queue", kg).stdout.split())
    assert all(word in shown for word in ("set aside", "1 facts", "bad.tsv", "finite"))
    assert "as batch 3" in lkge("queue", kg, "--restore", "2").stdout
    learned = lkge("add", kg, "--quiet")
    assert (learned.exit_code, "set aside" in learned.stdout) == (1, True)
    assert "version 2" in lkge("config", kg, "--set", "training.learning_rate=0.1").stdout
    assert json.loads(lkge("config", kg, "--json").stdout)["training"]["learning_rate"] == 0.1
    lkge("queue", kg, "--restore", "3")
    assert lkge("add", kg, "--quiet").exit_code == 0
    accept(open_graph(kg).store, GOOD)
    assert "--restore 5" in lkge("queue", kg, "--set-aside", "5").stdout
    for words in (["--set-aside", "1", "--restore", "1"], ["--restore", "1"]):
        assert lkge("queue", kg, *words).exit_code == 2


def test_a_link_in_place_of_what_is_set_aside_is_refused(kg: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", kg / "set_aside")
    with pytest.raises(RunError, match="a symbolic link"):
        open_graph(kg)
