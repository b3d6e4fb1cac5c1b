from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.store.made import (
    accept_next,
    bytes_of,
    empty_store,
    facts_of,
    learn,
    learn_waiting,
    made_store,
)

from lkge.data.checked_json import read_checked_json, write_checked_json
from lkge.data.files import held
from lkge.errors import DamagedFile, DataError, RunError, SettingsError
from lkge.store import inbox
from lkge.store.inbox import accept, discard, read_batch, waiting
from lkge.store.versions import INBOX_LOCK, MODEL, Store

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return empty_store(tmp_path / "KG", keep=2)


def test_what_is_accepted_waits(store: Store) -> None:
    added, gone = [("a", "is", "b"), ("c\td", "is", "ünï")], [("e", "was", "f")]
    first = accept(store, iter(added), gone, 0.25, "a file.tsv")
    second = accept(store, added[:1])
    assert (first.number, second.number) == (1, 2)
    assert (first.added, first.retracted) == (added, gone)
    assert (first.valid, first.source) == (0.25, "a file.tsv")
    assert first.accepted.endswith("+00:00")
    assert waiting(Store(store.folder)) == [first, second]
    assert read_batch(store, 2) == second


def test_lists_are_facts_too(store: Store) -> None:
    assert accept(store, [["a", "is", "b"]]).added == [("a", "is", "b")]  # type: ignore[list-item]


def test_many_facts_are_stored_by_number(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "READABLE", 2)
    added, gone = [("a", "is", "b"), ("b", "ünï", "c"), ("c", "is", "a")], [("e", "was", "f")]
    batch = accept(store, added, gone)
    assert (batch.added, batch.retracted) == (added, gone)
    assert read_batch(store, batch.number) == batch
    tree = read_checked_json(store.batch_file(batch.number))
    assert tree["added"]["entities"] == ["a", "b", "c"]
    for wrong in ({"ids": "AAAA"}, {"entities": ["a", "b"]}, {"entities": "abc"}, {"ids": None}):
        changed = {**tree, "added": {**tree["added"], **wrong}}
        write_checked_json(store.batch_file(batch.number), changed)
        with pytest.raises(DamagedFile):
            read_batch(store, batch.number)


def test_numbers_rise_by_one_after_batches_were_learned(store: Store) -> None:
    for number in range(1, 5):
        assert accept_next(store).number == number
        learn_waiting(store)
        assert not os.listdir(store.inbox)
    assert accept_next(store).number == 5
    assert accept_next(store).number == 6


def test_what_is_learned_does_not_wait(store: Store) -> None:
    first, second = accept_next(store), accept_next(store)
    learn(store, first)
    assert waiting(store) == [second]
    discard(store, first.number)
    assert waiting(store) == [second]
    discard(store, first.number)


def test_no_number_is_given_twice_when_a_version_is_damaged(tmp_path: Path) -> None:
    store = made_store(tmp_path / "KG", 2)
    store.paths(2, MODEL)[0].unlink()
    assert store.newest() == 1
    assert accept_next(store).number == 3


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        (("", "is", "b"), "empty name of entity"),
        (("a", " \t", "b"), "empty name of relation"),
        (("a", "is", "\n"), "empty name of entity"),
        (("a", "is⁻¹", "b"), "marks inverse relations; rename it"),
        (("a", "is"), "is not a fact"),
        (("a", "is", "b", "c"), "is not a fact"),
        (("a", "is", 3), "is not a fact"),
        (("a", "is", "\ud800"), "not valid Unicode"),
    ],
)
@pytest.mark.parametrize("retracted", [False, True])
def test_what_could_not_be_learned_is_refused(
    store: Store, fact: Any, told: str, retracted: bool
) -> None:
    facts = [("a", "is", "b"), fact]
    with pytest.raises(DataError, match=told):
        accept(store, [] if retracted else facts, facts if retracted else [])
    assert waiting(store) == []


def test_nothing_is_no_batch(store: Store) -> None:
    with pytest.raises(DataError, match="no fact to add or to retract"):
        accept(store, [])


@pytest.mark.parametrize("valid", [-0.1, 1.0, float("nan")])
def test_a_share_is_a_share(store: Store, valid: float) -> None:
    with pytest.raises(SettingsError, match="valid = "):
        accept(store, facts_of(1), valid=valid)


def test_a_store_without_its_inbox_says_so(store: Store) -> None:
    store.inbox.rmdir()
    with pytest.raises(RunError, match="inbox: cannot be read"):
        accept(store, facts_of(1))
    with pytest.raises(RunError, match="inbox: cannot be read"):
        waiting(store)


def test_a_damaged_batch_is_named(store: Store) -> None:
    path = store.batch_file(accept_next(store).number)
    path.write_text(path.read_text().replace("entity", "Entity"))
    with pytest.raises(DamagedFile, match=r"00000001\.json: damaged"):
        waiting(store)


def test_a_batch_under_the_name_of_another_is_damage(store: Store) -> None:
    batch = store.batch_file(accept_next(store).number)
    write_checked_json(store.batch_file(7), read_checked_json(batch))
    with pytest.raises(DamagedFile, match=r"00000007\.json: is batch 1"):
        waiting(store)


def test_a_batch_that_is_learned_while_others_look_does_not_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept_next(store)
    monkeypatch.setattr(Store, "batch_numbers", lambda _: [1, 2])
    assert [batch.number for batch in waiting(store)] == [1]


def test_tidying_waits_for_who_is_accepting(store: Store) -> None:
    """A batch that is being written is not taken for what a crash has left."""
    half = store.inbox / ".00000001.json.0a1b2c3d.part"
    with held(store.folder / INBOX_LOCK):
        half.touch()
        tidying = threading.Thread(target=store.tidy)
        tidying.start()
        tidying.join(0.2)
        assert tidying.is_alive()
        assert half.exists()
    tidying.join(30)
    assert not half.exists()


# Many at once

BATCHES = 50


def accept_many(folder: Path, who: str) -> None:
    store = Store(folder)
    for number in range(BATCHES):
        accept(store, [(who, "accepts", f"batch {number}")], source=who)


def test_two_processes_with_two_threads_each_never_share_a_number(store: Store) -> None:
    def two_threads(who: str) -> None:
        threads = [
            threading.Thread(target=accept_many, args=(store.folder, f"{who}{thread}"))
            for thread in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    processes = [FORK.Process(target=two_threads, args=(who,)) for who in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    batches = waiting(store)
    assert [batch.number for batch in batches] == list(range(1, 4 * BATCHES + 1))
    for who in ("a0", "a1", "b0", "b1"):
        mine = [batch.added[0][2] for batch in batches if batch.source == who]
        assert mine == [f"batch {number}" for number in range(BATCHES)]


def test_a_writer_beside_those_who_accept_loses_nothing(store: Store) -> None:
    process = FORK.Process(target=accept_many, args=(store.folder, "a"))
    process.start()
    learned: list[int] = []
    while process.is_alive() or waiting(store):
        store.tidy()
        for batch in waiting(store)[:1]:
            learn(store, batch)
            discard(store, batch.number)
            learned.append(batch.number)
    process.join()
    assert process.exitcode == 0
    assert learned == list(range(1, BATCHES + 1))
    assert store.manifest(store.newest()).last_batch == BATCHES
    assert bytes_of(store.inbox) == {}


@pytest.mark.parametrize("facts", [5, 1.5, True, [1], [[1, 2, 3]], ["abc"], "abc", None])
def test_a_batch_of_something_else_is_damaged(store: Store, facts: Any) -> None:
    path = store.batch_file(accept(store, [("a", "r", "b")]).number)
    write_checked_json(path, {**read_checked_json(path), "added": facts})
    with pytest.raises(DamagedFile, match="damaged"):
        waiting(store)
