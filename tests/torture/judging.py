"""What must hold after a crash or a fault of an operation, judged by its folder.

Most states of a disk differ in what nobody reads any more: unfinished files, and files of arrays
that no manifest names. Every state is opened, asked and checked; the next add is done for a few of
those that differ in nothing else. Each record is read anew from its file; the same bytes are parsed
once.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from tests.torture.disk import Tree, digest_of, tree_of
from tests.torture.operations import Answers, Expected, Operation, Place, ended

import lkge
from lkge.data.reading import read_regular
from lkge.errors import LkgeError
from lkge.store import records
from lkge.store.versions import DATA, LOG, Store

LATER = 1 << 16
"""Temporary names of the next add: none is left over from the operation."""
ENOUGH = 4
"""So many states that differ in nothing that is read go on to the next add."""


class _OneTime(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime(2026, 1, 1, tzinfo=tz)


@contextmanager
def alike(first: int = 0) -> Iterator[None]:
    """Within the block equal work leads to equal bytes: times, processes and temporary names, which
    are numbered from `first`. A sync does nothing: where nothing is lost, that saves time."""
    numbers, ticks = count(first), count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(os, "getpid", lambda: 1)
        patch.setattr(records, "datetime", _OneTime)
        patch.setattr(time, "perf_counter", lambda: float(next(ticks)))
        patch.setattr(time, "time_ns", lambda: 0)  # no folder has settled: each is listed
        patch.setattr(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
        yield


@contextmanager
def parsed_once(known: dict[tuple[type, bytes], Any]) -> Iterator[None]:
    """Within the block a record of the same bytes as one that was sound is not parsed again."""
    parse = records.read_with_format

    def read(path: Path, kind: type[Any]) -> Any:
        try:
            key = kind, read_regular(path, follow=False)
        except OSError:
            return parse(path, kind)  # its error
        if key not in known:
            known[key] = parse(path, kind)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "read_with_format", read)
        yield


class Judge:
    """Says what is wrong after an operation that was stopped.

    ends         how often the next add was done
    most_first   how often at most for a state that differs in what is read from all before
    most_again   how often at most for others
    """

    def __init__(self, operation: Operation, expected: Expected) -> None:
        self.operation, self.expected = operation, expected
        self.ends, self.most_first, self.most_again = 0, math.inf, math.inf
        self._now: dict[bytes, str | None] = {}
        self._later: dict[bytes, list[tuple[object, ...] | str]] = {}
        self._parsed: dict[tuple[type, bytes], Any] = {}

    def problem(self, place: Place, acknowledged: bool) -> str | None:
        """What is wrong with the graph in `place` and after the next add to it, in words; None if
        all is well. `acknowledged`: whether the operation must have happened."""
        tree = tree_of(place.parents[1])
        whole = digest_of(tree)
        with alike(LATER):
            with parsed_once(self._parsed):
                read = digest_of(_as_read(tree, place))
                if whole not in self._now:
                    self._now[whole] = self._wrong_now(place)
            if problem := self._now[whole]:
                return problem
            later = self._later.setdefault(read, [])
            if len(later) < ENOUGH and self._may_end(is_first=not later):
                later.append(self._end(place))
        return next(filter(None, (self._wrong(end, acknowledged) for end in later)), None)

    def _wrong_now(self, place: Place) -> str | None:
        try:
            if place.exists():
                graph = lkge.open(place)
                if self.expected.versions.get(graph.version) != Answers.of(graph):
                    return f"version {graph.version} gives other answers"
                if damages := graph.check():
                    return f"check finds {damages}"
        except Exception as error:  # whatever it is, it is reported
            return f"{type(error).__name__}: {error}"
        return None

    def _may_end(self, is_first: bool) -> bool:
        """Whether the next add is done once more, which is counted."""
        if is_first and self.most_first > 0:
            self.most_first -= 1
        elif not is_first and self.most_again > 0:
            self.most_again -= 1
        else:
            return False
        self.ends += 1
        return True

    def _end(self, place: Place) -> tuple[object, ...] | str:
        try:
            return ended(self.operation, place)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def _wrong(self, end: tuple[object, ...] | str, acknowledged: bool) -> str | None:
        if isinstance(end, str):
            return end
        if end == self.expected.done or (end == self.expected.without and not acknowledged):
            return None
        if end == self.expected.without:
            return "what was acknowledged is lost"
        return (
            f"the next add leads to {end}, not to {self.expected.done} or {self.expected.without}"
        )


def _as_read(tree: Tree, place: Place) -> Tree:
    """A tree without what no reader and no writer looks at: unfinished files, files of arrays that
    no manifest names, and what is behind the log of the newest version."""
    kg = "/".join(place.parts[-2:])
    try:
        store = Store(place)
        manifests = {} if store.is_old else {v: store.manifest(v) for v in store.versions()}
    except LkgeError:
        return tree
    if not manifests:
        return tree
    named = {name for manifest in manifests.values() for name in manifest.names}
    log_size = manifests[max(manifests)].log.bytes
    result: Tree = {}
    for name, content in tree.items():
        path = PurePosixPath(name)
        is_data = str(path.parent) == f"{kg}/{DATA}" and path.suffix == ".safetensors"
        is_temporary = any(re.fullmatch(r"\..*\.part", part) for part in path.parts)
        if content is not None and name == f"{kg}/{LOG}":
            content = content[:log_size] + b"more" * (len(content) > log_size)
        if not is_temporary and not (is_data and path.name not in named):
            result[name] = content
    return result
