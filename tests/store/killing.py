"""A process that makes others and kills them: `killing.py ROUNDS SEED FOLDER`, or `READERS FOLDER`.

It learns with torch in one thread and starts none, so that it can fork: a child is a real process
that begins at once. What it finds wrong ends it with an AssertionError.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from tests.store.living import bridge, ring

from lkge.living import init, open
from lkge.store.checking import check
from lkge.store.inbox import accept, waiting
from lkge.store.reader import open_reader
from lkge.store.records import StoreConfig

NEWS = [*ring(20, 26), *bridge(0, 20, 6)]
ACCEPTED, PUBLISHED = b"A", b"P"


def made(folder: Path, keep: int = 3) -> Path:
    """A graph of twenty people."""
    small = {"dim": 4, "max_epochs": 3, "batch_size": 32, "replay_queries": 8, "backend": "torch"}
    init(folder, keep=keep, **small).add(ring(0, 20), valid=0.2)
    return folder


def content(folder: Path, version: int) -> dict[str, bytes]:
    """All arrays of a version."""
    arrays = open(folder, version).reader.contents()
    return {f"{kind}.{n}": a.tobytes() for kind in arrays for n, a in arrays[kind].items()}


def forked(work: Callable[[], None]) -> int:
    """A child that does `work` and ends; its exit code is 0 if all went well."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def add(folder: Path, tell: Callable[[bytes], object]) -> None:
    """Accept the news unless they wait already, and learn them."""
    graph = open(folder)
    if graph.version == 1 and not waiting(graph.store):
        accept(graph.store, NEWS)
        tell(ACCEPTED)
    graph.learn_waiting()
    tell(PUBLISHED)


def killed_after(folder: Path, seconds: float) -> bytes:
    """What a process that adds the news had told before it was killed."""
    outcome, told = os.pipe()
    child = forked(lambda: add(folder, lambda sign: os.write(told, sign)))
    os.close(told)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(outcome, "rb") as pipe:
        return pipe.read()


def kill_many(rounds: int, seed: int, folder: Path) -> None:
    """Kill at random moments, look at what is left, and go on to the same bytes."""
    chance = random.Random(seed)
    template = made(folder / "template")
    whole = shutil.copytree(template, folder / "whole")
    started = time.perf_counter()
    add(whole, len)
    duration = time.perf_counter() - started
    expected = content(whole, 2)
    seen = set()
    for number in range(rounds):
        work = shutil.copytree(template, folder / f"{number}")
        told = b""
        for _ in range(chance.choice((1, 1, 2))):
            told += killed_after(work, chance.uniform(0, 1.2 * duration))
            require_kept(work, told)
        seen.add((open(work).version, told))
        add(work, len)
        assert content(work, 2) == expected, "other bytes than without the crash"
        assert check(open(work).store) == []
        shutil.rmtree(work)
    print(sorted({told for _, told in seen}))


def relearn(folder: Path) -> None:
    """Learn all facts again, with a checkpoint after each epoch."""
    open(folder, store_config=StoreConfig(seconds_between_checkpoints=0.0)).relearn()


def kill_relearning(rounds: int, seed: int, folder: Path) -> None:
    """Kill a process that learns all facts again, and go on to the same bytes."""
    chance = random.Random(seed)
    template = made(folder / "template")
    whole = shutil.copytree(template, folder / "whole")
    started = time.perf_counter()
    open(whole).relearn()
    duration, killed = time.perf_counter() - started, 0
    expected = content(whole, 2)
    for number in range(rounds):
        work = shutil.copytree(template, folder / f"{number}")
        child = forked(partial(relearn, work))
        time.sleep(chance.uniform(0, 1.2 * duration))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        graph = open(work)
        assert check(graph.store) == []
        assert graph.predict(subject="person 3", relation="knows 1", k=3)
        if graph.version == 1:
            killed += 1
            graph.relearn()
        assert graph.version == 2
        assert content(work, 2) == expected, "other bytes than without the crash"
        assert check(graph.store) == []
        shutil.rmtree(work)
    print(killed)


def require_kept(folder: Path, told: bytes) -> None:
    """Whatever was told has happened, nothing is damaged, and the graph answers."""
    graph = open(folder)
    assert graph.version in (1, 2)
    assert check(graph.store) == []
    assert graph.predict(subject="person 3", relation="knows 1", k=3)
    if PUBLISHED in told:
        assert graph.version == 2, "a published version is gone"
    if ACCEPTED in told and graph.version == 1:
        (batch,) = waiting(graph.store)
        assert [tuple(fact) for fact in batch.added] == NEWS, "accepted facts are gone"


def read_under_a_writer(folder: Path, versions: int = 8, readers: int = 2) -> None:
    """Readers open whatever is newest while versions come and go; each is whole."""
    place, stop = made(folder / "KG", keep=2), folder / "stop"

    def read() -> None:
        seen = set()
        while not stop.exists():
            reader = open_reader(place)
            names, record = reader.names, reader.record
            assert record.version == reader.version
            assert record.entities == names.num_entities == len(reader.inference_arrays["entity"])
            assert record.known_facts == reader.num_facts
            newest = names.entity_name(names.num_entities - 1)
            assert reader.predict(subject=newest, relation="knows 1", k=3)
            assert reader.neighbourhood(newest)
            seen.add(reader.version)
        assert len(seen) > 2

    children = [forked(read) for _ in range(readers)]
    graph = open(place)
    for number in range(versions):
        graph.add(bridge(0, 20 + 2 * number, 2))
        time.sleep(0.05)
    stop.touch()
    for child in children:
        _, status = os.waitpid(child, 0)
        assert status == 0, "a reader failed"
    assert [record.kind for record in graph.log()].count("add") == 1 + versions


if __name__ == "__main__":
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["readers", folder]:
            read_under_a_writer(Path(folder))
        case ["relearn", rounds, seed, folder]:
            kill_relearning(int(rounds), int(seed), Path(folder))
        case [rounds, seed, folder]:
            kill_many(int(rounds), int(seed), Path(folder))
