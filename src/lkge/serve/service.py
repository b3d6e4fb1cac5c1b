"""What the routes share: the version that answers, the batches that wait, and who learns them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from lkge.data.formats import Triple
from lkge.serve.bodies import Health, Job
from lkge.serve.current import Current
from lkge.serve.jobs import JobBook, done_job
from lkge.serve.learner import Learner, LearnerFailed, is_free
from lkge.serve.limits import Limits
from lkge.serve.metrics import Metrics
from lkge.serve.problems import Refusal, busy
from lkge.serve.streams import Pulse
from lkge.store import inbox
from lkge.store.reader import Reader
from lkge.store.records import ADD
from lkge.store.versions import Store
from lkge.training.events import VersionPublished

SECONDS_BETWEEN_LOOKS = 1.0
FIRST_RETRY, LAST_RETRY = 5.0, 300.0
"""Seconds after which a batch that failed is tried again: doubled each time, up to the last."""
RECENT = 20
"""Jobs that are done and still listed."""


class Service:
    """Lives on one event loop. The store on disk is the truth; this is what is seen of it."""

    def __init__(self, store: Store, limits: Limits, learner: Learner, metrics: Metrics) -> None:
        self.store, self.limits, self.metrics = store, limits, metrics
        self.current = Current(store, limits.threads)
        self.pulse = Pulse()
        self.book = JobBook()
        self._learner = learner
        self._wanted = asyncio.Event()
        self._retry_at, self._delay = 0.0, FIRST_RETRY
        self._finish()

    @property
    def reader(self) -> Reader:
        """The version that answers now; take it once and keep it to the end of a request."""
        return self.current.reader

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch and learn within the block; at its end the learner stops, answers are finished."""
        tasks = [asyncio.create_task(each()) for each in (self._watch, self._learn)]
        try:
            yield
        finally:
            self.pulse.end()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._learner.stop()
            self.current.close()

    async def accept(
        self, added: Sequence[Triple], retracted: Sequence[Triple], valid: float
    ) -> Job:
        """Make facts durable, and have them learned."""
        if len(self.book.open) >= self.limits.waiting_batches:
            raise busy("too many batches wait to be learned", 10 * self.limits.retry_seconds)
        task = partial(inbox.accept, self.store, added, retracted, valid, "http")
        batch = await self.current.aside(task)
        self.book.enter([batch])
        self._retry_at, self._delay = 0.0, FIRST_RETRY
        self._wanted.set()
        self.pulse.beat()
        return self.job(batch.number)

    def job(self, number: int) -> Job:
        """A batch that waits, is learned, or has become a version."""
        job = self.book.get(number)
        if job is not None:
            return job
        for record in reversed(self.reader.log):
            if record.batch == number and record.kind == ADD:
                return done_job(record)
        raise Refusal(404, f"there is no job {number}")

    def jobs(self) -> list[Job]:
        """Those that are open, and the last that are done; newest first."""
        added = [record for record in self.reader.log if record.kind == ADD]
        done = [done_job(record) for record in added[-RECENT:]]
        return [*reversed(self.book.open), *reversed(done)]

    def health(self) -> Health:
        """How the service is."""
        reader = self.reader
        return Health(
            status="degraded" if self.book.is_failing else "ok",
            version=reader.version,
            graph=self.store.folder.resolve().name,
            method=reader.config.method.name,
            dim=reader.config.model.dim,
            entities=reader.num_entities,
            relations=reader.num_relations,
            facts=reader.num_facts,
            waiting=len(self.book.open),
            jobs=self.book.open,
        )

    def gauges(self) -> dict[str, tuple[str, float]]:
        """The state of now, for Prometheus: name → (meaning, value)."""
        health = self.health()
        statuses = [job.status for job in health.jobs]
        return {
            "lkge_version": ("The version that answers.", health.version),
            "lkge_entities": ("Entities in it.", health.entities),
            "lkge_relations": ("Relations in it.", health.relations),
            "lkge_facts": ("Facts known in it.", health.facts),
            "lkge_batches_waiting": ("Batches not learned yet.", health.waiting),
            "lkge_jobs_learning": ("Batches being learned.", statuses.count("learning")),
            "lkge_jobs_failed": (
                "Batches that failed and are tried again.",
                statuses.count("failed"),
            ),
        }

    async def _watch(self) -> None:
        """Look for versions and batches that others made."""
        while True:
            with _logged("looking at the store"):
                await self._refresh()
                await self._enter_waiting()
                if self.book.open and time.monotonic() >= self._retry_at:
                    self._wanted.set()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    async def _enter_waiting(self) -> None:
        """Take in batches that someone else had accepted, or this service before it stopped."""
        numbers = await self.current.aside(self.store.batch_numbers)
        last = self.reader.manifest.last_batch
        if any(number > last and self.book.get(number) is None for number in numbers):
            self.book.enter(await self.current.aside(partial(inbox.waiting, self.store)))
            self._finish()
            self.pulse.beat()

    async def _learn(self) -> None:
        """Learn whatever waits, again and again."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self.book.open:
                with _logged("learning"):
                    await self._learn_waiting()

    async def _learn_waiting(self) -> None:
        if not await self.current.aside(partial(is_free, self.store)):
            return
        self.book.begin()
        self.pulse.beat()
        reason = None
        try:
            async for event in self._learner.events():
                await self._note(event)
        except LearnerFailed as error:
            reason = str(error)
        await self._refresh()
        if reason is not None:
            self.metrics.failures += 1
            self._retry_at, self._delay = time.monotonic() + self._delay, self._next_delay()
        self.book.rest(reason)
        self.pulse.beat()

    async def _note(self, event: Mapping[str, Any]) -> None:
        if event.get("type") == VersionPublished.__name__:
            await self._refresh()
            self.book.begin()
        else:
            self.book.note(event)
        self.pulse.beat()

    async def _refresh(self) -> None:
        if await self.current.refresh():
            self.metrics.swaps += 1
            self._finish()
            self.pulse.beat()

    def _finish(self) -> None:
        self.book.finish(self.reader.manifest.last_batch)

    def _next_delay(self) -> float:
        return min(2 * self._delay, LAST_RETRY)


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """A failure is a line in the log; the service goes on."""
    try:
        yield
    except Exception:
        logging.getLogger("lkge.serve").exception("%s failed", what)
