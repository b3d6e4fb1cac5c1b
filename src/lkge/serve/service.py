"""The state that the routes share: the active version, the queue of batches, the learner."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

from lkge.data.formats import Triple
from lkge.errors import LkgeError, RunError
from lkge.serve import entity_map, errors, jobs, learner, relearning, responses, streams
from lkge.serve.active import ActiveVersion
from lkge.serve.limits import Limits
from lkge.serve.metrics import Metrics
from lkge.store import inbox, records
from lkge.store.editing import require_possible
from lkge.store.edits import Edit
from lkge.store.reader import Reader
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


class Service:
    """The state of the service on one event loop. The store on disk is the source of truth."""

    def __init__(self, store: Store, limits: Limits, child: learner.Learner) -> None:
        self.store, self.limits = store, limits
        self.active = ActiveVersion(store, limits.threads)
        self.changes = streams.ChangeSignal()
        self.queue = jobs.JobQueue()
        self._skipped = store.skipped
        self.relearning: responses.RelearnJob | None = None
        if relearning.is_requested(store.folder, self.reader.log):
            self.relearning = responses.RelearnJob(status="waiting")
        self.trouble: str | None = None
        self._accepting = 0
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
    ) -> responses.Job:
        """Write facts to disk as a batch, and wake the learner."""

        def write(patience: float) -> inbox.FactBatch:
            return inbox.accept(self.store, added, retracted, valid, "http", patience=patience)

        return await self._accept(write)

    async def accept_edit(self, edit: Edit) -> responses.Job:
        """Write an edit to disk as a batch, and wake the learner."""
        if not self.queue.jobs:
            await self.active.query(lambda reader: require_possible(edit, reader))

        def write(patience: float) -> inbox.FactBatch:
            source = str(edit)
            return inbox.accept(self.store, (), source=source, edit=edit, patience=patience)

        return await self._accept(write)

    async def _accept(self, write: Callable[[float], inbox.FactBatch]) -> responses.Job:
        """Write a batch; `write` gets the seconds that it may wait for the lock of the inbox."""
        retry, until = self.limits.retry_seconds, time.monotonic() + self.limits.accept_seconds
        if len(self.queue.jobs) >= self.limits.waiting_batches:
            raise errors.overloaded("too many batches wait to be learned", 10 * retry)
        if self._accepting >= self.limits.accepting:
            raise errors.overloaded("too many batches wait to be written", retry)
        self._accepting += 1
        try:
            batch = await self.active.use_inbox(lambda: write(max(0.0, until - time.monotonic())))
        finally:
            self._accepting -= 1
        self.queue.add([batch])
        self._retry_at, self._retry_delay = 0.0, FIRST_RETRY
        self._wake_learner.set()
        self.changes.notify()
        return self.job(batch.number)

    async def relearn(self) -> responses.RelearnJob:
        """Learn all known facts at once, after the batches that wait; one such job at a time."""
        if not self.reader.store.options.known:
            raise errors.HTTPProblem(
                409, "this graph keeps no known facts, so there is nothing to learn again"
            )
        if self.relearning is None or self.relearning.status in FINISHED:
            version, folder = self.reader.version, self.store.folder
            await self.active.use_inbox(lambda: relearning.request(folder, version))
            self.relearning = responses.RelearnJob(status="waiting")
            self._wake_learner.set()
            self.changes.notify()
        return self.relearning

    def job(self, number: int) -> responses.Job:
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

    def jobs(self) -> list[responses.Job]:
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

    def health(self) -> responses.Health:
        """The current state."""
        reader, waiting = self.reader, self.queue.jobs
        has_failed = self.relearning is not None and self.relearning.status == "failed"
        is_degraded = self.queue.has_failed or has_failed or self.trouble
        return responses.Health(
            status="degraded" if is_degraded else "ok",
            detail=self.trouble,
            version=reader.version,
            graph=self.active.graph_name,
            method=reader.config.method.name,
            dim=reader.config.model.dim,
            entities=reader.num_entities - len(reader.removed),
            relations=reader.num_relations,
            facts=reader.num_facts,
            waiting=len(waiting),
            jobs=waiting,
            quality=self.active.quality,
            relearn=self.relearning,
        )

    async def _poll_store(self) -> None:
        """Find versions and batches of other processes; wake the learner when a retry is due."""
        while True:
            with _log_errors("polling the store"):
                try:
                    await self._refresh()
                    await self._add_waiting()
                except (LkgeError, OSError) as error:
                    await self._set_trouble(str(error))
                else:
                    await self._set_trouble(None)
                    due = self.queue.jobs and time.monotonic() >= self._retry_at
                    if due or (self._must_relearn and not self.queue.jobs):
                        self._wake_learner.set()
            await asyncio.sleep(POLL_SECONDS)

    async def _set_trouble(self, trouble: str | None) -> None:
        """Note whether the store can be used. If not, nothing is learned: a learner writes to the
        folder under that path, whichever it is."""
        if trouble != self.trouble:
            logging.getLogger("lkge.serve").warning("%s", trouble or "the store can be used again")
            self.trouble = trouble
            self.changes.notify()
        if trouble:
            await self._learner.stop()

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
        self._set_relearning(status="learning", progress=responses.Progress())
        try:
            async with aclosing(self._learner.events(learner.RELEARN)) as learned:
                async for event in learned:
                    if self.relearning and self.relearning.progress:
                        progress = jobs.after_event(self.relearning.progress, event)
                        self._set_relearning(progress=progress)
        except learner.LearnerFailed as failure:
            if self.trouble:
                self._set_relearning(status="waiting", progress=None)
                return
            self.metrics.failures.inc()
            self._set_relearning(status="failed", progress=None, detail=str(failure))
        else:
            await self._refresh()
            done = self.reader.version if self.reader.version > before else None
            self._set_relearning(status="done", progress=None, version=done)
            self._wake_learner.set()  # batches may have come meanwhile
        await self.active.use_inbox(lambda: relearning.withdraw(self.store.folder))

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
            async with aclosing(self._learner.events()) as learned:
                async for event in learned:
                    await self._apply(event)
        except (learner.LearnerFailed, RunError) as failure:
            error = str(failure)
            self.metrics.failures.inc()
            self._retry_at = time.monotonic() + self._retry_delay
            self._retry_delay = min(2 * self._retry_delay, LAST_RETRY)
        try:
            await self._refresh()
            await self._refresh_skipped()
        finally:
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
            entity_map.forget()
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
