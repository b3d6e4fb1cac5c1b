"""Versions as base files and deltas: the same content, fewer bytes, and no damage copied."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.faults import PowerCut
from tests.store.living import QUICK, bridge, bytes_of_version, made

import lkge
from lkge.errors import DamagedFile, DamageWarning
from lkge.store.backup import backup
from lkge.store.checking import check
from lkge.store.content import MAX_DELTAS
from lkge.store.graph import LivingGraph
from lkge.store.inbox import accept
from lkge.store.open_version import OpenVersion
from lkge.store.reader import open_reader
from lkge.store.records import StoreConfig
from lkge.store.repairing import repair
from lkge.store.verified import last_verified, note_verified, verified
from lkge.store.versions import INFERENCE, KNOWN, MODEL, NAMES, STORE

SMALL: dict[str, Any] = {"subgraph_entities": 6, "subgraph_entities_per_fact": 0}
DELTAS = StoreConfig(deltas_from_bytes=0, compact_after=100.0, **SMALL)
BASES = StoreConfig(deltas_from_bytes=1 << 30, **SMALL)
OPTIONS: dict[str, Any] = {"method": "fine-tune", "keep": 20, "dim": 16, "max_epochs": 1}


def grown(folder: Path, config: StoreConfig) -> LivingGraph:
    """Facts come and go, names change, and a version comes back."""
    graph = made(folder, **OPTIONS)
    graph.store_config = config
    graph.add(bridge(0, 40, 2), valid=0)
    graph.add([("person 40", "likes", "person 3")], retract=bridge(0, 40, 1), valid=0)
    graph.edit(rename=("person 7", "Ada"))
    graph.edit(remove="person 9")
    graph.edit(merge=("person 11", "Ada"))
    graph.rollback(4)
    graph.add([("person 9", "knows 1", "person 1"), ("New", "knows 1", "Ada")], valid=0)
    return graph


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grown(tmp_path_factory.mktemp("deltas") / "KG", DELTAS).store.folder


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> LivingGraph:
    return opened(Path(shutil.copytree(template, tmp_path / "KG")))


def opened(folder: Path) -> LivingGraph:
    return lkge.open(folder, store_config=DELTAS)


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_deltas_have_the_content_of_base_files(graph: LivingGraph, tmp_path: Path) -> None:
    twin = grown(tmp_path / "twin", BASES)
    assert [record.kind for record in graph.log()] == [record.kind for record in twin.log()]
    for version in range(9):
        assert bytes_of_version(graph, version) == bytes_of_version(twin, version)
    files = graph.reader.manifest.files
    assert all(len(files[kind]) > 2 for kind in (MODEL, INFERENCE, NAMES, KNOWN))
    assert all(len(each) == 1 for each in twin.reader.manifest.files.values())
    assert graph.check() == twin.check() == []
    for question in ({"subject": "Ada"}, {"object": "person 1"}, {"subject": "New"}):
        mine, theirs = (each.predict(relation="knows 1", **question) for each in (graph, twin))
        assert mine == theirs
    assert graph.neighbourhood("Ada") == twin.neighbourhood("Ada")
    assert graph.entities("", 99) == twin.entities("", 99)


def test_a_compaction_changes_no_content_and_removes_the_deltas(graph: LivingGraph) -> None:
    before = bytes_of_version(graph, 8)
    answers = graph.predict(subject="Ada", relation="knows 1", k=50)
    reader = open_reader(graph.store.folder)
    assert graph.compact()
    assert all(len(each) == 1 for each in graph.reader.manifest.files.values())
    assert bytes_of_version(graph, 8) == before
    assert opened(graph.store.folder).predict(subject="Ada", relation="knows 1", k=50) == answers
    assert reader.predict(subject="Ada", relation="knows 1", k=50) == answers
    assert graph.check() == []
    assert graph.compact() == []
    assert len(graph.log()) == 9


def test_many_deltas_are_compacted_before_the_next_batch(graph: LivingGraph) -> None:
    graph.store_config = StoreConfig(deltas_from_bytes=0, compact_after=0.001, **SMALL)
    assert graph.compaction_due
    graph.add([("person 1", "likes", "person 2")], valid=0, consolidate=False)
    files = graph.reader.manifest.files
    assert all(len(files[kind]) <= 2 for kind in files)
    assert files[MODEL][0].name.startswith("000008-"), "version 8 was written anew before"
    graph.add([("person 1", "likes", "person 4")], valid=0)
    assert not graph.compaction_due
    assert MAX_DELTAS == 32


def test_the_order_of_compactions_changes_no_version(graph: LivingGraph, tmp_path: Path) -> None:
    twin = opened(Path(shutil.copytree(graph.store.folder, tmp_path / "twin")))
    twin.compact()
    for each in (graph, twin):
        accept(each.store, [("person 1", "likes", "person 2"), ("x", "likes", "Ada")])
        each.learn_waiting()
    assert bytes_of_version(graph, 9) == bytes_of_version(twin, 9)


@pytest.mark.parametrize("kind", [MODEL, INFERENCE, NAMES, KNOWN])
def test_bit_rot_is_not_copied_into_new_base_files(graph: LivingGraph, kind: str) -> None:
    path = graph.store.paths(8, kind)[0]
    before = graph.reader.manifest
    flip(path, -len(path.read_bytes()) // 3)
    with pytest.raises(DamagedFile, match=path.name):
        opened(graph.store.folder).compact()
    assert graph.store.manifest(8) == before
    assert path.name in {Path(damage.path).name for damage in check(graph.store)}


def test_rows_that_are_damaged_are_not_learned_from(graph: LivingGraph) -> None:
    """Those of the subgraph; others stay as they are, and `verify` finds them."""
    (base, *_), names = graph.store.paths(8, MODEL), graph.reader.names
    size = graph.reader.model_arrays["tables.entity"].itemsize * 16
    data = base.read_bytes()
    row = graph.reader._files[MODEL][0].place("tables.entity") + size * names.entity_id("person 5")
    flip(base, row)
    again = opened(graph.store.folder)
    with pytest.raises(DamagedFile, match="digest differs at byte"):
        again.add([("person 5", "likes", "person 2")], valid=0)
    assert again.store.newest() == 8
    base.write_bytes(data)
    again = opened(graph.store.folder)
    assert [record.version for record in again.learn_waiting()] == [9]


def test_a_rollback_to_a_damaged_version_is_refused(graph: LivingGraph) -> None:
    path = graph.store.paths(1, MODEL)[0]
    flip(path, -len(path.read_bytes()) // 2)
    with pytest.raises(DamagedFile, match="digest differs"):
        opened(graph.store.folder).rollback(1)


@pytest.mark.parametrize("what", ["manifest", "header", "delta", "hold_out"])
def test_the_newest_sound_version_answers_with_a_warning(graph: LivingGraph, what: str) -> None:
    store = graph.store
    path, place = {
        "manifest": (store.manifest_file(8), 300),
        "header": (store.paths(8, "hold_out")[0], 30),
        "delta": (store.paths(8, MODEL)[-1], -200),
        "hold_out": (store.paths(8, "hold_out")[0], -200),
    }[what]
    flip(path, place)
    with pytest.warns(DamageWarning, match="version 8 is damaged, and version 7 is used"):
        older = lkge.open(store.folder)
    assert older.version == 7
    assert older.predict(subject="Ada", relation="knows 1")
    with pytest.raises(DamagedFile, match="lkge verify"):
        older.add([("a", "likes", "b")])


def test_a_flipped_bit_anywhere_is_found_or_answers_as_before(graph: LivingGraph) -> None:
    """In any file of the newest version: an older one answers with a warning, or the same."""
    store, chance = graph.store, np.random.default_rng(5)
    expected = answers_of(graph)
    paths = [store.manifest_file(8), store.folder / STORE]
    for kind in (MODEL, INFERENCE, NAMES, KNOWN):
        paths += map(store.path_of, graph.reader.manifest.files[kind])
    for path in paths:
        data = path.read_bytes()
        for place in chance.integers(0, len(data), 12):
            flip(path, int(place))
            found = {Path(damage.path).name for damage in check(store)}
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                reader = open_reader(store.folder, to_answer=True)
                answers = answers_of(lkge.open(store.folder)) if reader.version else None
            assert path.name in found or data[place : place + 1].isspace()
            assert not caught or path.name in found
            assert caught or answers == expected
            path.write_bytes(data)


def answers_of(graph: LivingGraph) -> list[object]:
    """Answers that read all that answers are made of."""
    people = [name for name in graph.entities("person", 99) if name != "person 2"]
    query = {"subject": "person 1", "relation": "knows 1", "k": 99}
    facts = [(name, "knows 1", "person 1") for name in people]
    return [graph.predict(**query), graph.similar("person 1", 99), graph.score(facts)]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [INFERENCE, NAMES, KNOWN])
def test_what_answers_is_verified_before_it_does(graph: LivingGraph, kind: str) -> None:
    """All bytes of it, in a base file that no reader copies."""
    graph.compact()
    graph.add([("later", "likes", "Ada")], valid=0, consolidate=False)
    path = graph.store.paths(9, kind)[0]
    earlier = graph.store.paths(7, kind)[0]
    assert path != earlier
    flip(path, -len(path.read_bytes()) // 3)
    for ask in (
        lambda: open_reader(graph.store.folder, to_answer=True),
        lambda: OpenVersion(graph.store.folder).answering(),
    ):
        with pytest.warns(DamageWarning, match=path.name):
            assert ask().version == 7
    for version in (8, 9):
        with pytest.raises(DamagedFile, match=path.name):
            lkge.open(graph.store.folder, version).entities()
    if kind != INFERENCE:
        again = opened(graph.store.folder)
        for write in (again.relearn, lambda: again.add([("Ada", "likes", "later still")])):
            with pytest.raises(DamagedFile, match=path.name):
                write()


def test_without_store_json_a_graph_answers_with_a_warning(graph: LivingGraph) -> None:
    expected = answers_of(graph)
    flip(graph.store.folder / STORE, 300)
    with pytest.warns(DamageWarning, match=f"{STORE}: damaged"):
        assert answers_of(lkge.open(graph.store.folder)) == expected


# What was verified


def test_the_last_verified_version_and_later_batches_stay(graph: LivingGraph) -> None:
    graph.keep(versions=2)
    assert check(graph.store) == []
    assert last_verified(graph.store.folder) == 8
    for number in range(3):
        graph.add([(f"p{number}", "likes", "Ada")], valid=0)
    assert graph.store.versions() == [8, 10, 11]
    expected = bytes_of_version(graph, 11)
    for version in (10, 11):
        flip(graph.store.manifest_file(version), 300)
    done = repair(graph.store)
    assert sum("is to be learned again" in line for line in done) == 3
    again = opened(graph.store.folder)
    assert again.version == 8
    again.learn_waiting()
    assert bytes_of_version(again, 11) == expected
    assert check(again.store) == []
    again.store.tidy()
    assert again.store.versions() == [10, 11], "all was verified, so that version 8 may go"


def test_a_verification_that_is_stopped_goes_on(
    graph: LivingGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = graph.store
    monkeypatch.setattr("lkge.store.checking.NOTED_BYTES", 0)
    read: list[str] = []
    from lkge.store import checking

    plain = checking.broken

    def broken(path: Path, *rest: Any) -> str | None:
        if len(read) == 5:
            raise PowerCut
        read.append(path.name)
        return plain(path, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(checking, "broken", broken)
        with pytest.raises(PowerCut):
            check(store)
    assert set(verified(store.folder).files) == set(read)
    first, read = read, []
    monkeypatch.setattr(
        checking, "broken", lambda path, *rest: (read.append(path.name), plain(path, *rest))[1]
    )
    assert check(store) == []
    assert not set(first) & set(read)
    assert verified(store.folder).files == ()
    assert last_verified(store.folder) == 8
    flip(store.paths(8, MODEL)[0], -200)
    assert check(store), "the next one reads all again"


# Backup


def test_a_backup_is_the_graph_and_takes_only_new_files(graph: LivingGraph, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "KG"
    graph.tag("first", 1)
    accept(graph.store, [("waits", "likes", "Ada")])
    assert backup(graph.store, target) > 50_000
    copy = opened(target)
    assert check(copy.store) == []
    assert (copy.version, copy.tags) == (8, {"first": 1})
    assert bytes_of_version(copy, 8) == bytes_of_version(graph, 8)
    assert len(copy.log()) == 9
    copied = {path.name: path.stat().st_ino for path in (target / "data").iterdir()}
    graph.learn_waiting()
    assert 0 < backup(graph.store, target) < 40_000
    after = {path.name: path.stat().st_ino for path in (target / "data").iterdir()}
    assert copied.items() <= after.items()
    assert bytes_of_version(opened(target), 9) == bytes_of_version(graph, 9)
    assert backup(graph.store, target) == 0
    opened(target).add([("copy", "likes", "Ada")])
    assert check(opened(target).store) == []


def test_a_backup_has_the_batches_that_are_set_aside(graph: LivingGraph, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    number = accept(graph.store, [("aside", "likes", "Ada")]).number
    graph.set_aside(number)
    backup(graph.store, target)
    copy = opened(Path(shutil.copytree(target, tmp_path / "restored")))
    assert copy.queue() == graph.queue()
    copy.restore(number)
    assert [record.facts for record in copy.learn_waiting()] == [1]
    assert copy.neighbourhood("aside")
    assert backup(graph.store, target) == 0
    graph.restore(number)
    backup(graph.store, target)
    assert opened(target).queue() == graph.queue()


def test_a_backup_does_not_copy_damage(graph: LivingGraph, tmp_path: Path) -> None:
    path = graph.store.paths(8, MODEL)[0]
    flip(path, -200)
    with pytest.raises(DamagedFile, match=path.name):
        backup(graph.store, tmp_path / "copy")
    assert not list((tmp_path / "copy" / "versions").iterdir())


def test_a_backup_goes_into_no_other_folder(graph: LivingGraph, tmp_path: Path) -> None:
    other = lkge.init(tmp_path / "other", **QUICK)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    for target in (tmp_path / "mine", graph.store.folder, other.store.folder):
        with pytest.raises(lkge.RunError):
            backup(graph.store, target)
    assert len(other.log()) == 1


def test_a_backup_that_is_cut_short_is_the_one_before(
    graph: LivingGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copy"
    backup(graph.store, target)
    graph.add([("later", "likes", "Ada")], valid=0)
    replace = os.replace
    for allowed in range(40):
        left = iter(range(allowed))

        def limited(source: Path, place: Path, left: Any = left) -> None:
            if next(left, None) is None:
                raise PowerCut
            replace(source, place)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", limited)
            try:
                backup(graph.store, target)
                break
            except PowerCut:
                pass
        assert check(lkge.open(target).store) == []
        assert open_reader(target).version in (8, 9)
        assert open_reader(target).predict(relation="likes", object="Ada")
    assert allowed > 3
    assert open_reader(target).version == 9
    assert check(lkge.open(target).store) == []
    note_verified(target, None)


def test_a_graph_that_another_process_compacts_goes_on(graph: LivingGraph) -> None:
    assert opened(graph.store.folder).compact()
    assert not graph.refresh(), "the version is the same"
    assert opened(graph.store.folder).compact() == []
    graph.add(bridge(40, 44, 1), valid=0)
    other = opened(graph.store.folder)
    other.add(bridge(44, 48, 1), valid=0)
    other.compact()
    graph.add(bridge(48, 52, 1), valid=0)
    assert graph.check() == []
    assert opened(graph.store.folder).version == graph.version == other.version + 1


def test_a_rollback_follows_a_compaction_by_another_process(graph: LivingGraph) -> None:
    opened(graph.store.folder).compact()
    graph.rollback(4)
    graph.configure({"patience": 3})
    assert graph.check() == []


def test_while_the_verified_version_is_not_known_none_is_removed(graph: LivingGraph) -> None:
    graph.check()
    before = graph.store.versions()
    (graph.store.folder / "verified.json").write_bytes(b"rot")
    graph.keep(2)
    assert graph.store.versions() == before
    graph.check()
    graph.keep(2)
    assert len(graph.store.versions()) == 2
