"""The version that answers queries, and the folder that it comes from."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from lkge.errors import RunError
from lkge.serve.responses import Quality
from lkge.store.health import health
from lkge.store.reader import Reader, open_reader
from lkge.store.versions import Store

T = TypeVar("T")


class OpenFolder:
    """A folder that is still the same one under its path. It is kept open, so that no other folder
    gets its number of inode."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def require_same(self) -> None:
        """Raise a RunError if the folder was renamed, replaced or removed."""
        try:
            same = os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except OSError:
            same = False
        if not same:
            raise RunError(
                f"{self._path}: was renamed, replaced or removed while it was served; put it back, "
                "or start the service again"
            )

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)


class ActiveVersion:
    """The open version that answers queries, and the threads that answer them.

    A request that holds a reader keeps its version. A new version is opened and queried once, so
    that its pages are in memory and its rows quantised, before it replaces the old one.
    """

    def __init__(self, store: Store, threads: int) -> None:
        self._store = store
        self.graph_name = store.folder.resolve().name
        self._compute_pool = ThreadPoolExecutor(threads, "compute")
        self._disk_pool = ThreadPoolExecutor(1, "disk")
        self._inbox_pool = ThreadPoolExecutor(1, "inbox")
        self._folder = OpenFolder(store.folder)
        self._lock = asyncio.Lock()
        self._versions = store.versions()
        self.reader, self.quality = self._open_newest()

    async def query(self, task: Callable[[Reader], T]) -> tuple[int, T]:
        """The active version, and the result of a task on it in the compute threads."""
        reader, loop = self.reader, asyncio.get_running_loop()
        return reader.version, await loop.run_in_executor(self._compute_pool, task, reader)

    async def use_disk(self, task: Callable[[], T]) -> T:
        """Run a task that reads the store in a thread of its own; a RunError if the folder is not
        the one that is served."""
        return await self._in_folder(self._disk_pool, task)

    async def use_inbox(self, task: Callable[[], T]) -> T:
        """The same for a task that may wait for the lock of the inbox, in another thread."""
        return await self._in_folder(self._inbox_pool, task)

    async def _in_folder(self, pool: Executor, task: Callable[[], T]) -> T:
        def checked() -> T:
            self._folder.require_same()
            result = task()
            self._folder.require_same()
            return result

        return await asyncio.get_running_loop().run_in_executor(pool, checked)

    async def refresh(self) -> bool:
        """Activate the newest version; whether the version changed."""
        async with self._lock:
            versions = await self.use_disk(self._store.versions)
            if versions == self._versions:
                return False
            reader, quality = await self.use_disk(self._open_newest)
            is_new = reader.version != self.reader.version
            self.reader, self.quality, self._versions = reader, quality, versions
            return is_new

    def close(self) -> None:
        """Wait for running tasks and end the threads."""
        self._compute_pool.shutdown()
        self._disk_pool.shutdown()
        self._inbox_pool.shutdown()
        self._folder.close()

    def _open_newest(self) -> tuple[Reader, Quality]:
        """The newest version, and the verdict on it."""
        reader = open_reader(self._store.folder)
        entities, relations = reader.entities("", 1), reader.relations("", 1)
        if entities and relations:
            reader.predict(subject=entities[0], relation=relations[0], k=1)
        return reader, Quality.model_validate(health(reader, self.graph_name))
