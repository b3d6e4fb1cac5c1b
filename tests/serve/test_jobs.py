from __future__ import annotations

import json

from lkge.serve.bodies import Progress
from lkge.serve.jobs import JobBook, after
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


def told(progress: Progress, *events: Event) -> Progress:
    """As the service hears it: through a line of JSON."""
    for event in events:
        progress = after(progress, json.loads(json_line(event)))
    return progress


def test_progress_follows_the_events_of_learning() -> None:
    begun = told(Progress(), Compiling(), SnapshotStarted(3, 40, 10, 2, max_epochs=9))
    assert (begun.stage, begun.epoch, begun.max_epochs) == ("learning", 0, 9)
    learned = told(begun, EpochFinished(3, 2, 0.5, 0.25, 0.3, 0, 1000.0, 1.5))
    assert (learned.epoch, learned.max_epochs, learned.valid_mrr) == (2, 9, 0.25)
    assert told(learned, Evaluating(3, 8)).stage == "measuring"


def test_what_could_not_be_measured_is_null_and_other_events_change_nothing() -> None:
    learned = told(Progress(), EpochFinished(0, 1, 0.5, NAN, NAN, 0, 1000.0, 1.5))
    assert learned.valid_mrr is None
    assert told(learned, RunFinished(2.0)) == learned
    assert after(learned, {"type": "Unheard of", "epoch": 77}) == learned
    assert after(learned, {}) == learned


def test_batches_are_learned_in_order() -> None:
    book = JobBook()
    book.enter([batch(2), batch(1)])
    book.begin()
    assert [(job.id, job.status) for job in book.open] == [(1, "learning"), (2, "waiting")]
    book.note({"type": "EpochFinished", "epoch": 4})
    first = book.get(1)
    assert first
    assert first.progress
    assert (first.facts, first.progress.epoch) == (1, 4)
    book.finish(1)
    assert book.get(1) is None
    assert [job.id for job in book.open] == [2]


def test_a_batch_that_failed_says_why_until_it_is_tried_again() -> None:
    book = JobBook()
    book.enter([batch(1)])
    book.begin()
    book.rest("the disk is full")
    assert book.is_failing
    assert [(job.status, job.detail) for job in book.open] == [("failed", "the disk is full")]
    book.begin()
    assert not book.is_failing
    assert [(job.status, job.detail) for job in book.open] == [("learning", None)]


def test_a_batch_is_entered_once() -> None:
    book = JobBook()
    book.enter([batch(1)])
    book.begin()
    book.enter([batch(1)])
    assert [job.status for job in book.open] == ["learning"]


def test_an_empty_book_does_nothing() -> None:
    book = JobBook()
    book.begin()
    book.note({"type": "EpochFinished", "epoch": 4})
    book.rest("nothing to blame")
    assert book.open == []
    assert not book.is_failing
