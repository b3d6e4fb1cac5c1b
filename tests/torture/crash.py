"""Crash states of an operation, enumerated: each must open, answer, be sound and go on.

python -m tests.torture crash
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture.disk import Disk, Sync, Tree, digest_of, tree_of, write_tree
from tests.torture.filesystem import Recorder, watched
from tests.torture.judging import Judge, alike
from tests.torture.operations import Expected, Operation, beginning, place_in

MOST_OF_A_MOMENT = 1024
"""Combined states of a moment that are made, at most."""
MOST_WITHOUT = 150
"""States without the syncs of a place that are looked at, at most."""


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
    """How many states were looked at, how many of these lose one thing, nothing or everything,
    whether there are no others, and what was wrong."""

    states: int = 0
    single: int = 0
    is_all: bool = False
    problems: list[str] = field(default_factory=list)


def crash(recording: Recording, most: int, seed: int = 0, *, whole: bool = False) -> Found:
    """Look at states of all moments, at most `most`, in a random order; with `whole`, at all states
    that lose one thing, nothing or everything, and at others up to `most` in all."""
    chance = random.Random(seed)
    single, combined, is_all = _states(recording, most, chance)
    every, first = single | combined, list(single) if whole else []
    others = sorted(every.keys() - set(first))
    chance.shuffle(others)
    chosen = [*first, *others][: max(most, len(first))]
    found = Found(is_all=is_all and len(chosen) == len(every))
    for digest in chosen:
        tree, moment = every[digest]
        found.states += 1
        found.single += digest in single
        if problem := recording.problem(tree, moment):
            found.problems.append(f"{recording.operation.name}, before change {moment}: {problem}")
    return found


States = dict[bytes, tuple[Tree, int]]
"""Different states by their digests, and the last moment of each: there the most is
acknowledged."""


def _states(recording: Recording, most: int, chance: random.Random) -> tuple[States, States, bool]:
    """The states of all moments that lose one thing, nothing or everything; so many others that
    there are `most`, or all; and whether that is all."""
    disk, moments = recording.disk, range(recording.end + 1)
    single: States = {}
    for moment in moments:
        for tree in disk.states(moment, 0, chance):
            single[digest_of(tree)] = tree, moment
    limit, largest = 4, max(map(disk.number_of_states, moments))
    while True:
        combined: States = {}
        for moment in moments:
            for tree in disk.states(moment, limit, chance):
                digest = digest_of(tree)
                (single if digest in single else combined)[digest] = tree, moment
        if len(single) + len(combined) >= most or limit >= min(largest, MOST_OF_A_MOMENT):
            return single, combined, largest <= limit
        limit *= 4


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
    """What happens without some syncs: states are looked at until a problem is found, first those
    that lose all that a sync protects, the latest ones before the others."""
    disk, seen = recording.disk.without(places), set()
    syncs = [(place, recording.disk.syncs[place]) for place in places]
    first = syncs[0][1]
    for tree, moment, sync in _without(disk, syncs, recording.end):
        if (digest := digest_of(tree)) in seen:
            continue
        if len(seen) == MOST_WITHOUT:
            break
        seen.add(digest)
        if problem := recording.problem(tree, moment):
            return Dropped(first.site, sync.path, len(seen), problem)
    return Dropped(first.site, first.path, len(seen), None)


def _without(
    disk: Disk, syncs: Sequence[tuple[int, Sync]], end: int
) -> Iterator[tuple[Tree, int, Sync]]:
    for whole in (True, False):
        for moment in reversed(range(syncs[0][0], end + 1)):
            for place, sync in syncs:
                if place < moment:
                    for tree in disk.losses(place, sync, moment, whole=whole):
                        yield tree, moment, sync
