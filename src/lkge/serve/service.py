"""The state that the routes share: the active version, the queue of batches, the learner."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from lkge.data.formats import Triple
from lkge.serve import entity_map, errors, jobs, learner, schemas, streams
from lkge.serve.limits import Limits
from lkge.serve.metrics import Metrics
from lkge.store import health as store_health
from lkge.store import inbox, records
from lkge.store.editing import require_possible
from lkge.store.edits import Edit
from lkge.store.reader import Reader, open_reader
from lkge.store.tags import tags_by_version
from lkge.store.versions import Store
from lkge.training import events

POLL_SECONDS = 1.0
FIRST_RETRY, LAST_RETRY = 5.0, 300.0
"""Seconds before a failed batch is retried: the first delay, doubled each time up to the last."""
ENDS_OF_BATCHES = (events.VersionPublished.__name__, events.BatchSkipped.__name__)
"""The types of the events after which a batch no longer waits."""
FINISHED = ("done", "failed")
RECENT_JOBS = 20  # finished jobs in the list of jobs

T = TypeVar("T")


class ActiveVersion:
    """The open version that answers queries, and the threads that answer them.

    A request that holds a reader keeps its version. A new version is opened and queried once, so
    that its pages are in memory, before it replaces the old one.
    """

    def __init__(self, store: Store, threads: int) -> None:
        self._store = store
        self._compute_pool = ThreadPoolExecutor(threads, "compute")
        self._disk_pool = ThreadPoolExecutor(1, "disk")
        self._lock = asyncio.Lock()
        self._versions = store.versions()
        self.reader = self._open_newest()

    async def query(self, task: Callable[[Reader], T]) -> tuple[int, T]:
        """The active version, and the result of a task on it in the compute threads."""
        reader, loop = self.reader, asyncio.get_running_loop()
        return reader.version, await loop.run_in_executor(self._compute_pool, task, reader)

    async def use_disk(self, task: Callable[[], T]) -> T:
        """Run a task that waits for the disk in a thread of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._disk_pool, task)

    async def refresh(self) -> bool:
        """Activate the newest version; whether the version changed."""
        async with self._lock:
            versions = await self.use_disk(self._store.versions)
            if versions == self._versions:
                return False
            reader = await self.use_disk(self._open_newest)
            old, self.reader, self._versions = self.reader, reader, versions
            entity_map.entity_map.cache_clear()
            return old.version != reader.version

    def close(self) -> None:
        """Wait for running tasks and end the threads."""
        self._compute_pool.shutdown()
        self._disk_pool.shutdown()

    def _open_newest(self) -> Reader:
        reader = open_reader(self._store.folder)
        entities, relations = reader.entities("", 1), reader.relations("", 1)
        if entities and relations:
            reader.predict(subject=entities[0], relation=relations[0], k=1)
        return reader


class Service:
    """The state of the service on one event loop. The store on disk is the source of truth."""

    def __init__(self, store: Store, limits: Limits, child: learner.Learner) -> None:
        self.store, self.limits = store, limits
        self.active = ActiveVersion(store, limits.threads)
        self.changes = streams.ChangeSignal()
        self.queue = jobs.JobQueue()
        self._skipped = store.skipped
        self.relearning: schemas.RelearnJob | None = None
        self._quality: tuple[Reader, schemas.Quality] | None = None
        self._learner = child
        self._wake_learner = asyncio.Event()
        self._retry_at, self._retry_delay = 0.0, FIRST_RETRY
        self.metrics = Metrics(self.health)

    @property
    def reader(self) -> Reader:
        """The active version. A request takes it once and keeps it to its end."""
        return self.active.reader

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Poll the store and learn inside the block; stop the learner at its end."""
        tasks = [asyncio.create_task(each()) for each in (self._poll_store, self._learn_loop)]
        try:
            yield
        finally:
            self.changes.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._learner.stop()
            self.active.close()

    async def accept(
        self, added: Sequence[Triple], retracted: Sequence[Triple], valid: float
    ) -> schemas.Job:
        """Write facts to disk as a batch, and wake the learner."""
        return await self._accept(lambda: inbox.accept(self.store, added, retracted, valid, "http"))

    async def accept_edit(self, edit: Edit) -> schemas.Job:
        """Write an edit to disk as a batch, and wake the learner."""
        if not self.queue.jobs:
            await self.active.query(lambda reader: require_possible(edit, reader))
        return await self._accept(lambda: inbox.accept(self.store, (), source=str(edit), edit=edit))

    async def _accept(self, write: Callable[[], inbox.FactBatch]) -> schemas.Job:
        if len(self.queue.jobs) >= self.limits.waiting_batches:
            detail = "too many batches wait to be learned"
            raise errors.overloaded(detail, 10 * self.limits.retry_seconds)
        batch = await self.active.use_disk(write)
        self.queue.add([batch])
        self._retry_at, self._retry_delay = 0.0, FIRST_RETRY
        self._wake_learner.set()
        self.changes.notify()
        return self.job(batch.number)

    async def relearn(self) -> schemas.RelearnJob:
        """Learn all known facts at once, after the batches that wait; one such job at a time."""
        if not self.reader.store.options.known:
            raise errors.HTTPProblem(
                409, "this graph keeps no known facts, so there is nothing to learn again"
            )
        if self.relearning is None or self.relearning.status in FINISHED:
            self.relearning = schemas.RelearnJob(status="waiting")
            self._wake_learner.set()
            self.changes.notify()
        return self.relearning

    def job(self, number: int) -> schemas.Job:
        """The job of a batch, in the queue or learned."""
        job = self.queue.get(number)
        if job is not None:
            return job
        for record in reversed(self.reader.log):
            if record.batch == number and record.kind in records.WITH_BATCH:
                return jobs.done_job(record)
        if number in self._skipped:
            return jobs.skipped_job(self._skipped[number])
        raise errors.HTTPProblem(404, f"there is no job {number}")

    def jobs(self) -> list[schemas.Job]:
        """The queue and the last finished jobs; newest first."""
        added = [record for record in self.reader.log if record.kind in records.WITH_BATCH]
        done = {record.batch: jobs.done_job(record) for record in added[-RECENT_JOBS:]}
        notes = list(self._skipped.values())[-RECENT_JOBS:]
        done = {note.number: jobs.skipped_job(note) for note in notes} | done
        recent = [done[number] for number in sorted(done)[-RECENT_JOBS:]]
        return [*reversed(self.queue.jobs), *reversed(recent)]

    async def tags(self) -> dict[int, list[str]]:
        """The tags of each version that has one."""
        return tags_by_version(await self.active.use_disk(lambda: self.store.tags))

    def health(self) -> schemas.Health:
        """The current state."""
        reader, waiting = self.reader, self.queue.jobs
        has_failed = self.relearning is not None and self.relearning.status == "failed"
        return schemas.Health(
            status="degraded" if self.queue.has_failed or has_failed else "ok",
            version=reader.version,
            graph=self.store.folder.resolve().name,
            method=reader.config.method.name,
            dim=reader.config.model.dim,
            entities=reader.num_entities - len(reader.removed),
            relations=reader.num_relations,
            facts=reader.num_facts,
            waiting=len(waiting),
            jobs=waiting,
            quality=self._quality_of(reader),
            relearn=self.relearning,
        )

    def _quality_of(self, reader: Reader) -> schemas.Quality:
        """The verdict on a version, made once."""
        if self._quality is None or self._quality[0] is not reader:
            health = store_health.health(reader, self.store.folder.resolve().name)
            found = schemas.Quality.model_validate(health)
            self._quality = reader, found
        return self._quality[1]

    async def _poll_store(self) -> None:
        """Find versions and batches of other processes; wake the learner when a retry is due."""
        while True:
            with _log_errors("polling the store"):
                await self._refresh()
                await self._add_waiting()
                due = self.queue.jobs and time.monotonic() >= self._retry_at
                if due or (self._must_relearn and not self.queue.jobs):
                    self._wake_learner.set()
            await asyncio.sleep(POLL_SECONDS)

    async def _add_waiting(self) -> None:
        """Add batches that another process, or an earlier service, accepted."""
        numbers = await self.active.use_disk(self.store.batch_numbers)
        await self._refresh_skipped()
        last = self.reader.manifest.last_batch
        new = (number for number in numbers if number > last and number not in self._skipped)
        if any(self.queue.get(number) is None for number in new):
            self.queue.add(await self.active.use_disk(lambda: inbox.waiting(self.store)))
            self._remove_learned()
            self.changes.notify()

    async def _refresh_skipped(self) -> None:
        """Read which batches led to no version; they leave the queue."""
        skipped = await self.active.use_disk(lambda: self.store.skipped)
        if skipped != self._skipped:
            self._skipped = skipped
            self._remove_learned()
            self.changes.notify()

    def _remove_learned(self) -> None:
        self.queue.remove_learned(self.reader.manifest.last_batch, self._skipped)

    async def _learn_loop(self) -> None:
        while True:
            await self._wake_learner.wait()
            self._wake_learner.clear()
            if self.queue.jobs:
                with _log_errors("learning"):
                    await self._learn_waiting()
            if self._must_relearn and not self.queue.jobs:
                with _log_errors("relearning"):
                    await self._relearn()

    @property
    def _must_relearn(self) -> bool:
        return self.relearning is not None and self.relearning.status == "waiting"

    async def _relearn(self) -> None:
        """Run the learner once with all known facts; the old version answers meanwhile."""
        if not await self.active.use_disk(lambda: learner.is_unlocked(self.store)):
            return
        before = self.reader.version
        self._set_relearning(status="learning", progress=schemas.Progress())
        try:
            async for event in self._learner.events(learner.RELEARN):
                if self.relearning and self.relearning.progress:
                    progress = jobs.after_event(self.relearning.progress, event)
                    self._set_relearning(progress=progress)
        except learner.LearnerFailed as failure:
            self.metrics.failures.inc()
            self._set_relearning(status="failed", progress=None, detail=str(failure))
            return
        await self._refresh()
        done = self.reader.version if self.reader.version > before else None
        self._set_relearning(status="done", progress=None, version=done)
        self._wake_learner.set()  # batches may have come meanwhile

    def _set_relearning(self, **changes: Any) -> None:
        if self.relearning is not None:
            self.relearning = self.relearning.model_copy(update=changes)
            self.changes.notify()

    async def _learn_waiting(self) -> None:
        """Run the learner once; it learns all batches of the store."""
        if not await self.active.use_disk(lambda: learner.is_unlocked(self.store)):
            return
        self.queue.start()
        self.changes.notify()
        error = None
        try:
            async for event in self._learner.events():
                await self._apply(event)
        except learner.LearnerFailed as failure:
            error = str(failure)
            self.metrics.failures.inc()
            self._retry_at = time.monotonic() + self._retry_delay
            self._retry_delay = min(2 * self._retry_delay, LAST_RETRY)
        await self._refresh()
        await self._refresh_skipped()
        self.queue.stop(error)
        self.changes.notify()

    async def _apply(self, event: Mapping[str, Any]) -> None:
        if event.get("type") in ENDS_OF_BATCHES:
            await self._refresh()
            await self._refresh_skipped()
            self.queue.start()
        else:
            self.queue.update(event)
        self.changes.notify()

    async def _refresh(self) -> None:
        if await self.active.refresh():
            self.metrics.swaps.inc()
            self._remove_learned()
            self.changes.notify()


@contextmanager
def _log_errors(action: str) -> Iterator[None]:
    """Log an error; the service continues."""
    try:
        yield
    except Exception:
        logging.getLogger("lkge.serve").exception("%s failed", action)
