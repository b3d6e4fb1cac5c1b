from __future__ import annotations

import json

from lkge.serve.jobs import JobQueue, after_event
from lkge.serve.responses import Progress
from lkge.store.inbox import FactBatch
from lkge.training.events import (
    Compiling,
    EpochFinished,
    Evaluating,
    Event,
    RunFinished,
    SnapshotStarted,
    json_line,
)

NAN = float("nan")
FACT = ("a", "knows", "b")


def batch(number: int) -> FactBatch:
    return FactBatch(number, [FACT] * number, [], 0.1, "test", "2026-01-01T00:00:00+00:00")


def after_events(progress: Progress, *events: Event) -> Progress:
    """Apply events in the form the service gets them: lines of JSON."""
    for event in events:
        progress = after_event(progress, json.loads(json_line(event)))
    return progress


def test_progress_follows_the_events_of_learning() -> None:
    begun = after_events(Progress(), Compiling(), SnapshotStarted(3, 40, 10, 2, max_epochs=9))
    assert (begun.stage, begun.epoch, begun.max_epochs) == ("learning", 0, 9)
    learned = after_events(begun, EpochFinished(3, 2, 0.5, 0.25, 0.3, 0, 1000.0, 1.5))
    assert (learned.epoch, learned.max_epochs, learned.valid_mrr) == (2, 9, 0.25)
    assert after_events(learned, Evaluating(3, 8)).stage == "measuring"


def test_what_could_not_be_measured_is_null_and_other_events_change_nothing() -> None:
    learned = after_events(Progress(), EpochFinished(0, 1, 0.5, NAN, NAN, 0, 1000.0, 1.5))
    assert learned.valid_mrr is None
    assert after_events(learned, RunFinished(2.0)) == learned
    assert after_event(learned, {"type": "Unheard of", "epoch": 77}) == learned
    assert after_event(learned, {}) == learned


def test_batches_are_learned_in_order() -> None:
    queue = JobQueue()
    queue.add([batch(2), batch(1)])
    queue.start()
    assert [(job.id, job.status) for job in queue.jobs] == [(1, "learning"), (2, "waiting")]
    queue.update({"type": "EpochFinished", "epoch": 4})
    first = queue.get(1)
    assert first
    assert first.progress
    assert (first.facts, first.progress.epoch) == (1, 4)
    queue.remove_learned(1)
    assert queue.get(1) is None
    assert [job.id for job in queue.jobs] == [2]


def test_a_batch_that_failed_says_why_until_it_is_tried_again() -> None:
    queue = JobQueue()
    queue.add([batch(1)])
    queue.start()
    queue.stop("the disk is full")
    assert queue.has_failed
    assert [(job.status, job.detail) for job in queue.jobs] == [("failed", "the disk is full")]
    queue.start()
    assert not queue.has_failed
    assert [(job.status, job.detail) for job in queue.jobs] == [("learning", None)]


def test_a_batch_is_entered_once() -> None:
    queue = JobQueue()
    queue.add([batch(1)])
    queue.start()
    queue.add([batch(1)])
    assert [job.status for job in queue.jobs] == ["learning"]


def test_an_empty_book_does_nothing() -> None:
    queue = JobQueue()
    queue.start()
    queue.update({"type": "EpochFinished", "epoch": 4})
    queue.stop("nothing to blame")
    assert queue.jobs == []
    assert not queue.has_failed
