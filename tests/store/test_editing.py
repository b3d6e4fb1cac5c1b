"""Entities that are removed, renamed and merged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults import PowerCut
from tests.store import living
from tests.store.living import QUICK, made, ring

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.data.formats import Triple
from lkge.errors import DataError, LkgeError, RunError, SettingsError, UnknownName
from lkge.living import init, open
from lkge.methods import known_methods
from lkge.store.edits import Edit
from lkge.store.graph import LivingGraph
from lkge.store.inbox import FactBatch, accept, waiting
from lkge.store.records import StoreConfig
from lkge.store.repairing import repair
from lkge.store.versions import MODEL, NAMES
from lkge.training.events import EpochFinished, Event


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph at version 1, which no test changes."""
    return made(tmp_path_factory.mktemp("original") / "KG", backend="torch").store.folder


@pytest.fixture
def graph(original: Path, tmp_path: Path) -> LivingGraph:
    return open(shutil.copytree(original, tmp_path / "KG"))


def known(graph: LivingGraph) -> set[Triple]:
    """All known facts by name."""
    names, answers = graph.reader.names, graph.reader.answers
    keys = np.repeat(answers.keys, np.diff(answers.offsets))
    return {
        (names.entity_name(s), names.relation_name(r), names.entity_name(o))
        for s, r, o in zip(
            (keys >> 32).tolist(), (keys & 0xFFFFFFFF).tolist(), answers.answers, strict=True
        )
        if r % 2 == 0
    }


def row_of(graph: LivingGraph, name: str) -> Any:
    return graph.reader.model_arrays["tables.entity"][graph.reader.names.entity_id(name)].tolist()


def bytes_of_version(graph: LivingGraph) -> dict[str, bytes]:
    return living.bytes_of_version(graph, graph.version)


class TestRemove:
    def test_the_entity_is_nowhere_any_more(self, graph: LivingGraph, tmp_path: Path) -> None:
        before = known(graph)
        record = graph.edit(remove="person 3")
        gone = {fact for fact in before if "person 3" in fact}
        assert len(gone) == 6
        assert (record.kind, record.retracted, record.removed) == ("edit", 6, 1)
        assert (record.entities, record.known_facts) == (40, 114)
        assert known(graph) == before - gone
        with pytest.raises(UnknownName, match="Did you mean") as error:
            graph.predict(subject="person 3", relation="knows 1")
        assert "person 3" not in error.value.nearest
        for answers in (
            graph.predict(subject="person 1", relation="knows 2", k=99),
            graph.predict(object="person 8", relation="knows 5", k=99, new_only=True),
            graph.similar("person 4", k=99),
        ):
            names = [answer.entity for answer in answers]
            assert not {"person 3", ""} & set(names)
            assert len(names) >= 38
        assert "person 3" not in graph.entities("", 99)
        assert len(graph.entities("", 99)) == 39
        assert all(each.entity != "person 3" for each in graph.neighbourhood("person 1"))
        graph.export(tmp_path / "out", "npy")
        names = json.loads((tmp_path / "out" / "entities.json").read_text())
        rows = np.load(tmp_path / "out" / "entities.npy")
        assert (len(names), len(rows)) == (39, 39)
        place = names.index("person 4")
        entity = graph.reader.names.entity_id("person 4")
        assert np.array_equal(rows[place], graph.reader.rows(np.array([entity]))[0])
        (removed,) = graph.reader.removed
        assert graph.reader.names.entity_name(int(removed)) == "", "the name is not kept"
        assert graph.check() == []

    def test_hold_out_facts_of_the_entity_are_gone(self, graph: LivingGraph) -> None:
        held = graph.reader.hold_out.facts
        entity = int(held[0, 0])
        graph.edit(remove=graph.reader.names.entity_name(entity))
        after = graph.reader.hold_out.facts
        assert len(after) == (held[:, (0, 2)] != entity).all(axis=1).sum()
        assert not (after[:, (0, 2)] == entity).any()

    def test_the_name_comes_back_as_a_new_entity(self, graph: LivingGraph) -> None:
        old = graph.reader.names.entity_id("person 3")
        graph.edit(remove="person 3")
        record = graph.add([("person 3", "knows 1", "person 9")], valid=0.0)
        assert (record.new_entities, record.removed, record.entities) == (1, 1, 41)
        assert graph.reader.names.entity_id("person 3") == 40 != old
        assert len(graph.neighbourhood("person 3")) == 1
        assert graph.reader.age(np.array([40])).tolist() == [3]
        assert "person 3" in graph.entities("", 99)
        graph.edit(remove="person 3")
        assert graph.reader.removed.tolist() == [old, 40]
        assert graph.check() == []

    def test_the_same_edit_gives_the_same_bytes(self, graph: LivingGraph, tmp_path: Path) -> None:
        twin = open(shutil.copytree(graph.store.folder, tmp_path / "twin"))
        for each in (graph, twin):
            each.edit(remove="person 3")
        assert bytes_of_version(graph) == bytes_of_version(twin)

    def test_a_graph_without_known_facts_can_lose_an_entity(self, tmp_path: Path) -> None:
        graph = init(tmp_path / "KG", known=False, **{**QUICK, "backend": "torch"})
        graph.add(ring(0, 12), valid=0.4)
        entity = graph.reader.names.entity_id("person 3")
        assert (graph.reader.hold_out.facts[:, (0, 2)] == entity).any()
        graph.edit(remove="person 3")
        assert not (graph.reader.hold_out.facts[:, (0, 2)] == entity).any()
        assert "person 3" not in graph.entities("", 99)
        with pytest.raises(SettingsError, match="needs the known facts"):
            graph.edit(merge=("person 4", "person 5"))

    def test_an_entity_without_facts_leaves_without_training(self, graph: LivingGraph) -> None:
        graph.add([], retract=[fact for fact in known(graph) if "person 3" in fact])
        rows = np.array(graph.reader.model_arrays["tables.entity"])
        record = graph.edit(remove="person 3")
        assert (record.epochs, record.retracted, record.removed) == (0, 0, 1)
        assert np.array_equal(rows, graph.reader.model_arrays["tables.entity"])


class TestRename:
    def test_only_the_name_changes(self, graph: LivingGraph) -> None:
        before, row, files = known(graph), row_of(graph, "person 3"), bytes_of_version(graph)
        record = graph.edit(rename=("person 3", "Ada"))
        assert (record.kind, record.facts, record.retracted, record.epochs) == ("edit", 0, 0, 0)
        assert row_of(graph, "Ada") == row
        after = bytes_of_version(graph)
        changed = {name for name in files if files[name] != after[name]}
        assert {name.partition(".")[0] for name in changed} == {NAMES}
        swap = {"person 3": "Ada"}
        assert known(graph) == {(swap.get(s, s), r, swap.get(o, o)) for s, r, o in before}
        assert graph.entities("ad") == ["Ada"]
        assert graph.check() == []
        with pytest.raises(UnknownName):
            graph.similar("person 3")
        assert graph.reader.manifest.updates == 1, "nothing was learned"
        assert graph.add([("Ada", "knows 1", "person 30")]).new_entities == 0

    def test_a_relation(self, graph: LivingGraph) -> None:
        asked = {"subject": "person 3", "k": 5}
        before = graph.predict(relation="knows 1", **asked)
        graph.edit(rename_relation=("knows 1", "Übung"))
        assert graph.predict(relation="Übung", **asked) == before
        assert "Übung⁻¹" in {each.relation for each in graph.neighbourhood("person 3")}
        assert graph.check() == []

    def test_a_name_that_was_removed_is_free(self, graph: LivingGraph) -> None:
        entity = graph.reader.names.entity_id("person 4")
        graph.edit(remove="person 3")
        graph.edit(rename=("person 4", "person 3"))
        graph.edit(rename=("person 5", "person 4"))
        assert graph.reader.names.entity_id("person 3") == entity
        assert graph.check() == []


class TestMerge:
    def test_facts_move_and_duplicates_are_one(self, graph: LivingGraph) -> None:
        graph.add([("person 3", "knows 1", "person 9"), ("person 20", "knows 1", "person 9")])
        before = known(graph)
        record = graph.edit(merge=("person 3", "person 20"))
        into = {"person 3": "person 20"}
        moved = {(into.get(s, s), r, into.get(o, o)) for s, r, o in before}
        assert known(graph) == moved
        gone = {fact for fact in before if "person 3" in fact}
        assert (record.retracted, record.facts) == (len(gone), len(moved - before))
        assert record.facts == len(gone) - 1
        assert record.known_facts == len(moved)
        assert "person 3" not in graph.entities("", 99)
        assert {each.since for each in graph.neighbourhood("person 20")} == {1, 2, 3}
        assert record.warnings == ()
        assert graph.check() == []

    def test_a_fact_between_the_two_becomes_one_of_the_entity_with_itself(
        self, graph: LivingGraph
    ) -> None:
        graph.edit(merge=("person 3", "person 4"))
        assert ("person 4", "knows 1", "person 4") in known(graph)

    def test_rows_that_no_moved_fact_needs_keep_every_bit(self, tmp_path: Path) -> None:
        graph = made(tmp_path / "KG", backend="torch", memory="none")  # no replay of other rows
        graph.store_config = StoreConfig(subgraph_entities=2, subgraph_entities_per_fact=0)
        before = np.array(graph.reader.model_arrays["tables.entity"])
        record = graph.edit(merge=("person 3", "person 4"))
        after = graph.reader.model_arrays["tables.entity"]
        assert len(after) == len(before)
        changed = (after != before).any(axis=1)
        assert 0 < changed.sum() == record.touched < 20


class TestErrors:
    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({}, SettingsError, "one change, not 0"),
            ({"remove": "a", "rename": ("b", "c")}, SettingsError, "one change, not 2"),
            ({"remove": "persn 3"}, UnknownName, "Did you mean 'person 3'"),
            ({"rename": ("persn 3", "x")}, UnknownName, "Did you mean"),
            ({"rename": ("person 3", "person 4")}, DataError, "'person 4' is in use"),
            ({"rename": ("person 3", "")}, DataError, "empty name"),
            ({"rename": ("person 3", "\ud800")}, DataError, "not valid Unicode"),
            ({"merge": ("person 3", "nobody at all")}, UnknownName, "no entity named"),
            ({"merge": ("person 3", "person 3")}, DataError, "given twice"),
            ({"rename_relation": ("knows 1", "knows 2")}, DataError, "in use"),
            ({"rename_relation": ("knows 1⁻¹", "x")}, DataError, "inverse"),
            ({"rename_relation": ("knows 1", "x⁻¹")}, DataError, "marks inverse"),
        ],
    )
    def test_what_cannot_be_done_changes_nothing(
        self, graph: LivingGraph, change: dict[str, Any], error: type[LkgeError], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            graph.edit(**change)
        assert (open(graph.store.folder).version, waiting(graph.store)) == (1, [])
        assert accept(graph.store, ring(0, 3)).number == 2

    def test_an_edit_that_cannot_be_applied_any_more_blocks_nothing(
        self, graph: LivingGraph
    ) -> None:
        for _ in range(2):
            accept(graph.store, (), edit=Edit("remove", "person 3"))
        accept(graph.store, [("person 8", "knows 1", "person 30")])
        records = graph.learn_waiting()
        assert [record.kind for record in records] == ["edit", "failed", "add"]
        assert "no entity named 'person 3'" in records[1].warnings[0]
        assert graph.store.skipped[3].failed
        assert graph.check() == []

    def test_a_batch_is_an_edit_or_facts(self) -> None:
        edit = Edit("remove", "a")
        with pytest.raises(ValueError, match="not both"):
            FactBatch(1, [("a", "b", "c")], [], 0.0, "", "", edit)
        with pytest.raises(ValueError, match="second name"):
            Edit("merge", "a")


class TestDurability:
    def test_an_edit_that_was_accepted_survives_a_kill(
        self, graph: LivingGraph, tmp_path: Path
    ) -> None:
        twin = open(shutil.copytree(graph.store.folder, tmp_path / "twin"))
        graph.store_config = StoreConfig(seconds_between_checkpoints=0.0)

        def kill(event: Event) -> None:
            if isinstance(event, EpochFinished) and event.epoch == 2:
                raise PowerCut

        with pytest.raises(PowerCut):
            graph.edit(merge=("person 3", "person 20"), listener=kill)
        assert [batch.edit for batch in waiting(graph.store)] == [
            Edit("merge", "person 3", "person 20")
        ]
        again = open(graph.store.folder)
        assert [record.kind for record in again.learn_waiting()] == ["edit", "consolidate"]
        twin.edit(merge=("person 3", "person 20"))
        assert bytes_of_version(again) == bytes_of_version(twin)

    def test_a_damaged_version_of_an_edit_is_made_again(self, graph: LivingGraph) -> None:
        graph.edit(remove="person 3")
        graph.edit(rename=("person 4", "Ada"))
        expected = bytes_of_version(graph)
        for version in (2, 3):
            graph.store.paths(version, MODEL)[0].unlink(missing_ok=True)
        repair(graph.store)
        again = open(graph.store.folder)
        assert [record.kind for record in again.learn_waiting()] == ["edit", "edit"]
        assert bytes_of_version(again) == expected
        assert again.check() == []

    def test_a_rollback_past_edits_restores_the_names(self, graph: LivingGraph) -> None:
        before, answers = known(graph), graph.predict(subject="person 3", relation="knows 1")
        graph.edit(rename=("person 4", "Ada"))
        graph.edit(merge=("person 3", "Ada"))
        record = graph.rollback(1)
        assert (record.removed, record.entities) == (0, 40)
        assert known(graph) == before
        assert graph.predict(subject="person 3", relation="knows 1") == answers
        assert "Ada" not in graph.entities("", 99)
        assert graph.rollback(3).removed == 1
        assert "person 3" not in graph.entities("", 99)
        assert graph.check() == []

    def test_names_that_do_not_fit_the_record_are_damage(self, graph: LivingGraph) -> None:
        graph.edit(remove="person 3")
        path = graph.store.manifest_file(2)
        tree = read_checked_json(path)
        tree["record"]["removed"] = 0
        write_checked_json(path, tree)
        log, damage = graph.check()
        assert "does not have the line of version 2" in log.reason
        assert "1 entity names are empty instead of 0" in damage.reason

    def test_facts_must_not_wait_for_a_rollback_but_an_edit_learns_them(
        self, graph: LivingGraph
    ) -> None:
        accept(graph.store, [("newcomer", "knows 1", "person 3")])
        with pytest.raises(RunError, match="wait to be learned"):
            graph.rollback(1)
        assert graph.edit(remove="newcomer").version == 3


@pytest.mark.parametrize("method", sorted(known_methods()))
def test_any_method_serves(tmp_path: Path, method: str) -> None:
    graph = made(tmp_path / "KG", method=method, max_epochs=1, backend="torch")
    graph.edit(remove="person 3")
    graph.edit(rename=("person 4", "Ada"))
    graph.edit(merge=("person 5", "Ada"))
    answers = graph.predict(subject="Ada", relation="knows 1", k=99)
    assert len(answers) == 38
    assert not {"person 3", "person 5", ""} & {answer.entity for answer in answers}
    assert graph.check() == []
