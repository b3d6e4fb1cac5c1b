from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.store.made import empty_store

from lkge.data.files import held
from lkge.errors import RunError, StoreLocked
from lkge.store import locks
from lkge.store.locks import writing
from lkge.store.records import CONSOLIDATE, to_json
from lkge.store.versions import WRITER_LOCK, Store

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return empty_store(tmp_path / "KG")


def hold(store: Store, ready: Connection) -> None:
    with writing(store, "lkge add KG facts.tsv"):
        ready.send("held")
        signal.pause()


def test_a_second_writer_is_told_who_the_first_is_until_that_is_killed(store: Store) -> None:
    mine, theirs = FORK.Pipe()
    process = FORK.Process(target=hold, args=(store, theirs))
    process.start()
    try:
        assert mine.recv() == "held"
        with pytest.raises(StoreLocked) as caught, writing(store, "lkge add KG more.tsv"):
            pytest.fail("two writers at once")
        told = str(caught.value)
        assert told.startswith(f"{store.folder}: being written by process {process.pid} of ")
        assert os.uname().nodename in told
        assert "`lkge add KG facts.tsv`" in told
    finally:
        process.kill()
        process.join()
    with writing(store, "lkge add KG more.tsv"):
        pass


def test_threads_exclude_each_other_too(store: Store) -> None:
    told: list[Exception] = []

    def second() -> None:
        try:
            with writing(store, "second"):
                pass
        except StoreLocked as error:
            told.append(error)

    with writing(store, "first"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert "`first`" in str(told[0])


def test_the_lock_is_free_after_a_failure(store: Store) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), writing(store, "first"):
            raise KeyError
    assert (store.folder / WRITER_LOCK).read_bytes() == b""


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "\x00"])
def test_a_holder_that_did_not_say_who_it_is_holds_the_lock_still(
    store: Store, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks.time, "sleep", lambda _: None)
    with writing(store, "first"):
        (store.folder / WRITER_LOCK).write_text(text)
        with pytest.raises(StoreLocked, match="another process"), writing(store, "second"):
            pytest.fail("two writers at once")


def test_a_user_without_a_name_has_a_number(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("no such user")

    monkeypatch.setattr(locks.getpass, "getuser", nameless)
    with writing(store, "first"):
        assert f'"user": "{os.getuid()}"' in (store.folder / WRITER_LOCK).read_text()


def test_a_store_that_cannot_be_written_says_so(store: Store) -> None:
    (store.folder / WRITER_LOCK).mkdir()
    with pytest.raises(RunError, match=r"writer\.lock: cannot be written"), writing(store, "first"):
        pytest.fail("no lock was there to hold")


def test_failures_within_are_not_failures_of_the_lock(store: Store) -> None:
    with pytest.raises(FileNotFoundError), writing(store, "first"):
        (store.folder / "none").read_bytes()


def test_who_only_looks_whether_the_lock_is_free_is_in_nobodys_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking = held(store.folder / WRITER_LOCK)
    assert looking.__enter__()
    monkeypatch.setattr(locks.time, "sleep", lambda _: looking.__exit__(None, None, None))
    with writing(store, "first"):
        pass


def test_who_has_just_taken_the_lock_has_time_to_say_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consolidation that begins slowly is waited for, as any other."""
    path, sleeps = store.folder / WRITER_LOCK, count()
    taken = held(path)
    assert taken.__enter__()

    def sleep(_: float) -> None:
        match next(sleeps):
            case 50:
                holder = locks.Holder(1, "here", "me", CONSOLIDATE, "now")
                path.write_text(json.dumps(to_json(holder)))
            case 200:
                taken.__exit__(None, None, None)

    monkeypatch.setattr(locks.time, "sleep", sleep)
    with writing(store, "first"):
        pass
    assert next(sleeps) == 201
