"""Batches on their way into a version: what is known of each, and how events change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lkge.serve.bodies import Job, Progress
from lkge.store.inbox import FactBatch
from lkge.store.records import VersionRecord
from lkge.training.events import Compiling, EpochFinished, Evaluating, SnapshotStarted

STAGES = {
    Compiling.__name__: "compiling",
    SnapshotStarted.__name__: "learning",
    EpochFinished.__name__: "learning",
    Evaluating.__name__: "measuring",
}
"""Event of a learner → where it is; events that are not named here change nothing."""


def after(progress: Progress, event: Mapping[str, Any]) -> Progress:
    """How far learning is after an event."""
    stage = STAGES.get(event.get("type", ""))
    if stage is None:
        return progress
    known = {name: event[name] for name in Progress.model_fields if name in event}
    return Progress.model_validate({**progress.model_dump(), **known, "stage": stage})


def waiting_job(batch: FactBatch) -> Job:
    """The job of a batch that was just accepted."""
    return Job(
        id=batch.number,
        status="waiting",
        accepted=batch.accepted,
        facts=len(batch.added),
        retracted=len(batch.retracted),
    )


def done_job(record: VersionRecord) -> Job:
    """The job of a batch that became a version."""
    return Job(
        id=record.batch,
        status="done",
        accepted=record.created,
        facts=record.facts,
        retracted=record.retracted,
        version=record.version,
    )


class JobBook:
    """The batches that are not learned yet, by number; those that are stand in the log."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}

    @property
    def open(self) -> list[Job]:
        """In the order in which they are learned."""
        return [self._jobs[number] for number in sorted(self._jobs)]

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to learn failed."""
        return any(job.status == "failed" for job in self._jobs.values())

    def get(self, number: int) -> Job | None:
        """A job that is open."""
        return self._jobs.get(number)

    def enter(self, batches: Iterable[FactBatch]) -> None:
        """Take in batches that are new here."""
        for batch in batches:
            self._jobs.setdefault(batch.number, waiting_job(batch))

    def begin(self) -> None:
        """The first batch is being learned."""
        self._change_first(status="learning", progress=Progress(), detail=None)

    def note(self, event: Mapping[str, Any]) -> None:
        """The learner told something about the batch that it learns."""
        for job in self.open[:1]:
            self._change_first(progress=after(job.progress or Progress(), event))

    def finish(self, last_batch: int) -> None:
        """All batches up to `last_batch` are learned."""
        self._jobs = {number: job for number, job in self._jobs.items() if number > last_batch}

    def rest(self, reason: str | None = None) -> None:
        """Nothing is being learned any more: the first batch failed, or waits again."""
        status = "waiting" if reason is None else "failed"
        self._change_first(status=status, progress=None, detail=reason)

    def _change_first(self, **changes: Any) -> None:
        for job in self.open[:1]:
            self._jobs[job.id] = job.model_copy(update=changes)
