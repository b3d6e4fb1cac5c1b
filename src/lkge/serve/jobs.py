"""The queue of batches to learn, and how events of the learner change their state."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lkge.serve.responses import Job, Progress
from lkge.store.inbox import FactBatch
from lkge.store.records import EDIT, VersionRecord
from lkge.store.skipped import SkippedBatch
from lkge.training import events

STAGES = {
    events.Compiling.__name__: "compiling",
    events.SnapshotStarted.__name__: "learning",
    events.EpochFinished.__name__: "learning",
    events.Evaluating.__name__: "measuring",
}
"""Type of an event → stage; other events change nothing."""


def after_event(progress: Progress, event: Mapping[str, Any]) -> Progress:
    """The progress after an event of the learner."""
    stage = STAGES.get(event.get("type", ""))
    if stage is None:
        return progress
    fields = {name: event[name] for name in Progress.model_fields if name in event}
    return Progress.model_validate({**progress.model_dump(), **fields, "stage": stage})


def done_job(record: VersionRecord) -> Job:
    """The job of a batch that became a version."""
    return Job(
        id=record.batch,
        status="done",
        accepted=record.created,
        facts=record.facts,
        retracted=record.retracted,
        edit=record.source if record.kind == EDIT else None,
        version=record.version,
    )


def skipped_job(note: SkippedBatch) -> Job:
    """The job of a batch that led to no version."""
    return Job(
        id=note.number,
        status="failed" if note.failed else "done",
        accepted=note.accepted,
        facts=0,
        retracted=0,
        detail=note.message,
    )


class JobQueue:
    """The batches that are not learned yet, by number. The first one is the one being learned."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}

    @property
    def jobs(self) -> list[Job]:
        """All jobs of the queue, in the order of learning."""
        return [self._jobs[number] for number in sorted(self._jobs)]

    @property
    def has_failed(self) -> bool:
        """Whether the last attempt to learn failed."""
        return any(job.status == "failed" for job in self._jobs.values())

    def get(self, number: int) -> Job | None:
        """A job of the queue, or None."""
        return self._jobs.get(number)

    def add(self, batches: Iterable[FactBatch]) -> None:
        """Add the batches that are not in the queue."""
        for batch in batches:
            job = Job(
                id=batch.number,
                status="waiting",
                accepted=batch.accepted,
                facts=len(batch.added),
                retracted=len(batch.retracted),
                edit=str(batch.edit) if batch.edit else None,
            )
            self._jobs.setdefault(batch.number, job)

    def start(self) -> None:
        """Learning of the first batch starts."""
        self._change_first(status="learning", progress=Progress(), detail=None)

    def update(self, event: Mapping[str, Any]) -> None:
        """Apply an event of the learner to the first batch."""
        for job in self.jobs[:1]:
            self._change_first(progress=after_event(job.progress or Progress(), event))

    def stop(self, error: str | None = None) -> None:
        """The learner ended: the first batch failed with `error`, or waits again."""
        status = "waiting" if error is None else "failed"
        self._change_first(status=status, progress=None, detail=error)

    def remove_learned(self, last_batch: int, skipped: Collection[int] = ()) -> None:
        """Remove all batches up to `last_batch`, and those that were skipped."""
        self._jobs = {
            number: job
            for number, job in self._jobs.items()
            if number > last_batch and number not in skipped
        }

    def _change_first(self, **changes: Any) -> None:
        for job in self.jobs[:1]:
            self._jobs[job.id] = job.model_copy(update=changes)
