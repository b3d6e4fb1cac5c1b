from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.made import (
    accept_next,
    bytes_of,
    content_of,
    empty_store,
    files_of,
    learn,
    learn_waiting,
    made_store,
    manifest_of,
)

from lkge.errors import DamagedFile
from lkge.store import inbox
from lkge.store.checking import Damage, check
from lkge.store.records import ROLLBACK, Options
from lkge.store.repairing import repair
from lkge.store.versions import (
    BATCH,
    DAMAGED,
    HOLD_OUT_FILE,
    INFERENCE,
    KNOWN,
    MODEL,
    NAMES,
    STORE,
    Store,
)

MANIFEST = "manifest"
FILES = [MODEL, INFERENCE, NAMES, KNOWN, HOLD_OUT_FILE, BATCH, MANIFEST]
ARRAYS = FILES[:5]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5 if path.name.endswith("base.safetensors") else len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def remove(path: Path) -> None:
    path.unlink()


HARM: dict[str, Callable[[Path], None]] = {
    "digest differs": flip,
    "truncated": truncate,
    "too long": lengthen,
    "missing": remove,
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Versions 0 to 2, and a batch that waits."""
    store = made_store(tmp_path / "KG", 2)
    accept_next(store)
    return store


def by_version(store: Store) -> dict[int, dict[str, bytes]]:
    return {version: content_of(store, version) for version in store.versions()}


def place_of(store: Store, version: int, name: str) -> Path:
    """A file of a version."""
    return store.manifest_file(version) if name == MANIFEST else store.paths(version, name)[0]


def test_a_store_at_rest_has_no_damage(store: Store) -> None:
    assert check(store) == []
    assert repair(store) == []


def test_what_a_crash_left_is_no_damage(store: Store) -> None:
    for folder in (store.folder, store.inbox, store.folder_of_versions, store.data):
        (folder / ".file.0a1b2c3d.part").touch()
        (folder / ".folder.0a1b2c3d.part").mkdir()
    assert check(store) == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("reason", HARM)
@pytest.mark.parametrize("name", FILES)
def test_damage_is_named_with_its_version_and_the_others_open(
    store: Store, name: str, reason: str, version: int
) -> None:
    path = place_of(store, version, name)
    HARM[reason](path)
    found = check(store)
    if (name, reason, version) == (MANIFEST, "missing", 1):
        assert found == [], "as if it were pruned"
        return
    assert [(damage.path, damage.version) for damage in found] == [(str(path), version)]
    sealed_by_itself = name == MANIFEST and reason != "missing"
    assert ("damaged; `lkge verify`" if sealed_by_itself else reason) in found[0].reason
    noticed_at_once = name in (MANIFEST, HOLD_OUT_FILE) or reason != "digest differs"
    assert store.newest() == (1 if version == 2 and noticed_at_once else 2)


@pytest.mark.parametrize("name", [NAMES, KNOWN, HOLD_OUT_FILE, MANIFEST])
def test_no_flipped_bit_goes_unnoticed(store: Store, name: str) -> None:
    path, manifest = place_of(store, 2, name), store.manifest(2)
    data = path.read_bytes()
    for place in range(0, len(data), 23):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        found = [damage.path for damage in check(store)]
        blank = data[place : place + 1].isspace() and not found and store.manifest(2) == manifest
        assert found == [str(path)] or blank
    path.write_bytes(data)
    assert check(store) == []


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("data/notes.txt", "not of a version"),
        ("data/000001-notes.json", "not of a version"),
        ("versions/000007", "not a version"),
        ("versions/notes.txt", "not a version"),
        ("versions/0000001.json", "not a version"),
        ("inbox/notes.txt", "not a batch"),
        ("inbox/1.json", "not a batch"),
    ],
)
def test_what_does_not_belong_there_is_named_and_set_aside(
    store: Store, place: str, reason: str
) -> None:
    (store.folder / place).write_text("mine")
    assert check(store) == [Damage(str(store.folder / place), reason)]
    before = by_version(store)[2]
    assert len(repair(store)) == 1
    assert check(store) == []
    assert by_version(store)[2] == before
    assert (store.folder / "damaged" / Path(place).name).read_text() == "mine"


def test_damage_outside_of_versions_is_named(store: Store) -> None:
    flip(store.folder / STORE)
    flip(store.batch_file(3))
    found = [(damage.path, damage.version) for damage in check(store)]
    assert found == [(str(store.folder / STORE), None), (str(store.batch_file(3)), None)]
    (store.folder / STORE).unlink()
    assert check(store)[0].reason == "missing"


def test_what_is_pruned_or_learned_meanwhile_is_no_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    listings = chain([[0, 1, 2, 77]], repeat([0, 1, 2]))
    monkeypatch.setattr(Store, "versions", lambda _: next(listings))
    monkeypatch.setattr(Store, "batch_numbers", lambda _: [3, 77])
    assert check(store) == []


# Sense


def with_change(name: str, array: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    files: dict[str, Any] = files_of(1)
    return {**files, name: {**files[name], array: change(files[name][array].copy())}}


def swapped(array: Any) -> Any:
    return array[::-1].copy()


def first(value: int) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array.flat[0] = value
        return array

    return change


def last(value: int) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array.flat[-1] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        (NAMES, "entity.ends", first(100)),
        (NAMES, "entity.ends", first(-1)),
        (NAMES, "entity.ends", last(5)),
        (NAMES, "entity.order", first(1)),
        (NAMES, "entity.order", first(3)),
        (NAMES, "entity.order", lambda order: order.astype(np.int64)),
        (NAMES, "relation.text", lambda text: text[:-1]),
        (KNOWN, "keys", swapped),
        (KNOWN, "keys", last(9 << 32)),
        (KNOWN, "keys", last((2 << 32) + 2)),
        (KNOWN, "offsets", swapped),
        (KNOWN, "offsets", first(1)),
        (KNOWN, "offsets", last(3)),
        (KNOWN, "answers", last(3)),
        (KNOWN, "answers", first(-1)),
        (KNOWN, "since", last(2)),
        (KNOWN, "since", lambda since: since[:-1]),
        (HOLD_OUT_FILE, "facts", last(3)),
        (HOLD_OUT_FILE, "facts", lambda facts: facts[:, :2]),
        (HOLD_OUT_FILE, "since", lambda since: np.append(since, since)),
        (HOLD_OUT_FILE, "since", first(2)),
        (HOLD_OUT_FILE, "entities", first(9)),
        (HOLD_OUT_FILE, "baseline", first(1.5)),
        (HOLD_OUT_FILE, "baseline", lambda values: values[:, :1]),
        (HOLD_OUT_FILE, "last", first(np.nan)),
        (MODEL, "tables.entity", lambda rows: rows[1:]),
        (INFERENCE, "entity", lambda rows: rows[1:]),
    ],
)
def test_nonsense_is_damage_even_with_the_right_digest(
    tmp_path: Path, name: str, array: str, change: Callable[[Any], Any]
) -> None:
    store = empty_store(tmp_path / "KG")
    manifest = manifest_of(1, kind=ROLLBACK)
    store.publish(1, with_change(name, array, change), manifest)
    found = check(store)
    assert [damage.path for damage in found] == [str(store.paths(1, name)[0])]
    assert "do not fit together" in found[0].reason


def test_other_totals_than_the_manifest_has_are_damage(tmp_path: Path) -> None:
    store = empty_store(tmp_path / "KG")
    manifest = manifest_of(1, kind=ROLLBACK, entities=7)
    store.publish(1, files_of(1), manifest)
    named = {Path(damage.path).name for damage in check(store)}
    assert named == {f"000001-{kind}-base.safetensors" for kind in (MODEL, INFERENCE, NAMES)}


# Repair


@pytest.mark.parametrize("reason", HARM)
@pytest.mark.parametrize("name", [*ARRAYS, MANIFEST])
def test_a_damaged_newest_version_is_learned_again_to_the_same_bytes(
    store: Store, name: str, reason: str
) -> None:
    learn_waiting(store)
    whole = by_version(store)
    for version in (2, 3):
        HARM[reason](place_of(store, version, name))
    done = repair(store)
    assert len(done) == (6 if name != MANIFEST else 4) - 2 * (reason == "missing")
    assert (store.versions(), check(store)) == ([0, 1], [])
    assert [batch.number for batch in inbox.waiting(store)] == [2, 3]
    assert inbox.accept(store, [("a", "is", "b")]).number == 4
    inbox.discard(store, 4)
    learn_waiting(store)
    assert by_version(store) == whole
    assert check(store) == []
    aside = {path.name for path in (store.folder / "damaged").glob("*.json")}
    assert (
        aside == set()
        if (name, reason) == (MANIFEST, "missing")
        else {"000002.json", "000003.json"}
    )


def test_batches_that_came_after_the_damage_are_learned_after_it(store: Store) -> None:
    place_of(store, 2, MODEL).unlink()
    later = accept_next(store)
    assert later.number == 4
    repair(store)
    assert [batch.number for batch in inbox.waiting(store)] == [2, 3, 4]


def test_an_older_damaged_version_is_only_set_aside(store: Store) -> None:
    flip(place_of(store, 1, MODEL))
    before = by_version(store)
    done = repair(store)
    assert len(done) == 2
    assert all("set aside as" in line for line in done)
    assert by_version(store) == {version: before[version] for version in (0, 2)}
    assert [batch.number for batch in inbox.waiting(store)] == [3]


def test_what_is_set_aside_never_replaces_what_was(store: Store) -> None:
    for _ in range(3):
        flip(place_of(store, 2, MODEL))
        repair(store)
        learn(store, inbox.waiting(store)[0])
    names = sorted(path.name for path in (store.folder / "damaged").iterdir())
    model = "000002-model-base.safetensors"
    both = [(f"{model}{end}", f"000002.json{end}") for end in ("", ".1", ".2")]
    assert names == sorted(name for pair in both for name in pair)


def test_a_version_with_a_damaged_batch_only_is_kept_without_it(store: Store) -> None:
    flip(place_of(store, 2, BATCH))
    before = store.manifest(2)
    assert len(repair(store)) == 2
    assert check(store) == []
    rest = {name: seal for name, seal in before.files.items() if name != BATCH}
    assert store.manifest(2) == dataclasses.replace(before, files=rest)
    assert store.newest() == 2


def test_a_missing_batch_of_a_whole_version_is_forgotten(store: Store) -> None:
    place_of(store, 2, BATCH).unlink()
    assert store.newest() == 1
    repair(store)
    assert (store.newest(), check(store)) == (2, [])


def test_a_batch_that_is_lost_with_its_version_is_said_to_be(store: Store) -> None:
    flip(place_of(store, 2, MODEL))
    flip(place_of(store, 2, BATCH))
    done = repair(store)
    assert any("batch of version 2 is lost; add its facts again" in line for line in done)
    assert (store.versions(), check(store)) == ([0, 1], [])


def test_a_damaged_rollback_has_no_batch_to_learn_again(store: Store) -> None:
    store.publish(3, files_of(2), manifest_of(3, 2, kind=ROLLBACK, entities=4))
    flip(place_of(store, 3, MODEL))
    assert len(repair(store)) == 2
    assert [batch.number for batch in inbox.waiting(store)] == [3]


def test_a_damaged_batch_is_set_aside_and_said_to_be_lost(store: Store) -> None:
    later = accept_next(store)
    flip(store.batch_file(3))
    (done,) = repair(store)
    assert done.endswith("; add its facts again")
    assert inbox.waiting(store) == [later]
    assert check(store) == []


@pytest.mark.parametrize("harm", HARM.values())
@pytest.mark.parametrize("known", [True, False])
def test_a_damaged_root_is_written_anew(
    tmp_path: Path, harm: Callable[[Path], None], known: bool
) -> None:
    store = empty_store(tmp_path / "KG", known=known)
    facts = {"known_facts": 2 if known else 0}
    manifest = manifest_of(1, kind=ROLLBACK, **facts)
    store.publish(1, files_of(1), manifest)
    config = store.config
    harm(store.folder / STORE)
    assert [damage.path for damage in check(store)] == [str(store.folder / STORE)]
    there = (store.folder / STORE).exists()
    assert len(repair(store)) == 1
    assert (store.folder / DAMAGED / STORE).exists() == there
    assert (store.config, store.options) == (config, Options(known=known))
    assert check(store) == []


def test_without_a_whole_version_nothing_is_touched(store: Store) -> None:
    for version in store.versions():
        flip(place_of(store, version, MODEL))
    before = bytes_of(store.folder)
    with pytest.raises(DamagedFile, match="no version is whole; restore the folder from a backup"):
        repair(store)
    assert bytes_of(store.folder) == before


def test_a_repair_that_is_cut_short_is_made_good_by_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shutil.copytree(store.folder, store.folder.with_name("whole"))
    flip(place_of(store, 2, MODEL))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", _stop)
        with pytest.raises(KeyboardInterrupt):
            repair(store)
    store.tidy()
    repair(store)
    learn_waiting(store)
    again = Store(whole)
    learn_waiting(again)
    assert by_version(store) == by_version(again)


def _stop(*_: object) -> None:
    raise KeyboardInterrupt
