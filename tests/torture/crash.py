"""Crash states of an operation, enumerated: each must open, answer, be sound and go on.

python -m tests.torture crash
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.disk import Disk, Tree, digest_of, tree_of, write_tree
from tests.torture.filesystem import Recorder, watched
from tests.torture.judging import Judge, alike
from tests.torture.operations import Expected, Operation, beginning, place_in


@dataclass
class Recording:
    """An operation that was done once, with all its changes of the disk."""

    operation: Operation
    disk: Disk
    acknowledged: int
    """From this change on, what the operation does must not be lost."""
    judge: Judge
    scratch: Path

    @classmethod
    def of(cls, operation: Operation, scratch: Path) -> Recording:
        """Do it. The model of the disk, with nothing lost, must be what is on the disk."""
        expected = Expected.of(operation, scratch / "expected")
        start, recorder = beginning(operation.begin).tree, Recorder()
        root = write_tree(start, scratch / "root")
        moments: list[int] = []
        with alike(), watched(root, recorder):
            operation.run(place_in(root), lambda: moments.append(len(recorder.calls)))
        disk = Disk.of(root, start, recorder.calls)
        assert disk.end() == tree_of(root), "something changed the disk unseen"
        calls = recorder.calls[: moments[0]] if moments else recorder.calls
        acknowledged = len(Disk.of(root, start, calls).changes)
        judge = Judge(operation, expected)
        return cls(operation, disk, acknowledged, judge, scratch / "work")

    @property
    def end(self) -> int:
        """The moment after the last change."""
        return len(self.disk.changes)

    def problem(self, tree: Tree, moment: int) -> str | None:
        """What is wrong with a state of the disk at a moment."""
        root = write_tree(tree, self.scratch)
        return self.judge.problem(place_in(root), moment >= self.acknowledged)


@dataclass
class Found:
    """How many states were looked at, and what was wrong."""

    states: int = 0
    problems: list[str] = field(default_factory=list)


def crash(recording: Recording, limit: int, seed: int = 0, most: int | None = None) -> Found:
    """Look at the states before each change, `limit` of each or a few more; in all at most
    `most`, in a random order."""
    chosen = list(_states(recording, limit, random.Random(seed)))
    random.Random(seed).shuffle(chosen)
    chosen = chosen[:most]
    found = Found()
    for tree, moment in chosen:
        found.states += 1
        if problem := recording.problem(tree, moment):
            found.problems.append(f"{recording.operation.name}, before change {moment}: {problem}")
    return found


def _states(recording: Recording, limit: int, chance: random.Random) -> Iterator[tuple[Tree, int]]:
    """All different states, and the last moment of each: there the most is acknowledged."""
    last: dict[bytes, tuple[Tree, int]] = {}
    for moment in range(recording.end + 1):
        for tree in recording.disk.states(moment, limit, chance):
            last[digest_of(tree)] = tree, moment
    yield from last.values()


@dataclass(frozen=True)
class Dropped:
    """Syncs that were taken out of an operation, all of one site or a single one: how many states
    that made possible which were looked at, and the problem that was found, if any."""

    site: str
    path: str
    states: int
    problem: str | None


def drop_sites(recording: Recording, needed: Collection[str] = ()) -> Iterator[Dropped]:
    """All syncs of each site in the code are taken out; not of those already known as needed."""
    syncs = recording.disk.syncs
    for site in sorted({sync.site for sync in syncs.values()} - set(needed)):
        yield dropped(recording, [place for place, sync in syncs.items() if sync.site == site])


def dropped(recording: Recording, places: Sequence[int]) -> Dropped:
    """What happens without some syncs: states are looked at until a problem is found."""
    disk, seen = recording.disk.without(places), set()
    syncs = [(place, recording.disk.syncs[place]) for place in places]
    first = syncs[0][1]
    for moment in reversed(range(places[0], recording.end + 1)):
        for place, sync in syncs:
            for tree in disk.losses(place, sync, moment) if place < moment else ():
                if (digest := digest_of(tree)) in seen:
                    continue
                seen.add(digest)
                if problem := recording.problem(tree, moment):
                    return Dropped(first.site, sync.path, len(seen), problem)
    return Dropped(first.site, first.path, len(seen), None)
