"""The version that answers, and how a newer one takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lkge.serve.atlas import Atlas
from lkge.store.reader import Reader, open_reader
from lkge.store.versions import Store

T = TypeVar("T")


class Current:
    """One reference to an opened version. Whoever took it keeps it, whatever comes after.

    A newer version is opened and asked once, so that its pages are in memory, before it is put in
    the place of the old one.
    """

    def __init__(self, store: Store, threads: int) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(threads, "answer")
        self._helper = ThreadPoolExecutor(1, "helper")
        self._turn = asyncio.Lock()
        self._seen: list[int] = store.versions()
        self.atlas = self._opened()

    @property
    def reader(self) -> Reader:
        """The version that answers."""
        return self.atlas.reader

    async def work(self, task: Callable[[], T]) -> T:
        """Do what takes the processor, away from the loop, a few at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, task)

    async def aside(self, task: Callable[[], T]) -> T:
        """Do what waits for the disk, without taking a place from those who answer."""
        return await asyncio.get_running_loop().run_in_executor(self._helper, task)

    async def refresh(self) -> bool:
        """Look for a newer version and take it; whether there was one."""
        async with self._turn:
            seen = await self.aside(self._store.versions)
            if seen == self._seen:
                return False
            atlas = await self.aside(self._opened)
            before, self.atlas, self._seen = self.reader, atlas, seen
            return before.version != self.reader.version

    def _opened(self) -> Atlas:
        reader = open_reader(self._store.folder)
        warm(reader)
        return Atlas(reader)

    def close(self) -> None:
        """Let what was begun end."""
        self._pool.shutdown()
        self._helper.shutdown()


def warm(reader: Reader) -> None:
    """Ask once, so that the next who asks does not wait for the disk."""
    names = reader.entities("", 1), reader.relations("", 1)
    if all(names):
        reader.predict(subject=names[0][0], relation=names[1][0], k=1)
