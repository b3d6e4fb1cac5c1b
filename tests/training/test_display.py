from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

from lkge.training.display import (
    PlainLines,
    ProgressState,
    clock_time,
    render,
    shown,
    sparkline,
    time_left,
)
from lkge.training.events import (
    Compiling,
    EpochFinished,
    Evaluating,
    Event,
    JsonlLog,
    RunFinished,
    RunStarted,
    SnapshotFinished,
    SnapshotStarted,
)


def epoch(number: int, mrr: float = 0.2, *, snapshot: int = 0, idle: int = 0) -> EpochFinished:
    return EpochFinished(
        snapshot=snapshot,
        epoch=number,
        loss=1.5,
        valid_mrr=mrr,
        best_mrr=0.25,
        epochs_without_gain=idle,
        facts_per_second=123456.7,
        seconds=2.0 * number,
    )


def started(index: int = 0) -> SnapshotStarted:
    return SnapshotStarted(
        snapshot=index, train_facts=12345, entities=2900, relations=48, max_epochs=200
    )


def finished(index: int = 0) -> SnapshotFinished:
    return SnapshotFinished(
        snapshot=index,
        epochs=40,
        best_epoch=37,
        valid_mrr=0.2501,
        paper_mrr=0.2402,
        current_mrr=0.2303,
        seconds=80.0,
    )


STORY: list[Event] = [
    RunStarted("brick", "lkge", snapshots=3, snapshot=0, epochs_done=0),
    started(0),
    epoch(1, 0.1),
    epoch(2, 0.2),
    Evaluating(snapshot=0, queries=5000),
    finished(0),
    started(1),
    epoch(1, 0.21, snapshot=1, idle=2),
]


def state_after(events: list[Event]) -> ProgressState:
    state = ProgressState()
    for event in events:
        state.update(event)
    return state


def screen(events: list[Event], patience: int | None = 3) -> str:
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(render(state_after(events), 61.0, patience))
    return console.export_text()


def test_the_display_shows_the_snapshot_under_way_and_those_finished() -> None:
    text = screen(STORY)
    for expected in (
        "lkge learns brick, 3 snapshots",
        "2 of 3 · 12,345 facts to learn, 2,900 entities, 48 relations",
        "1 of at most 200",
        "1.5000",
        "0.2100 · best 0.2500 · no gain for 2 of 3 epochs",
        "123,457 facts/s · 2.00 s an epoch",
        "1:01",
        "at most 6:38 for this snapshot, 0:02 if it gains no more",
        "at most 13:18 for the run",
    ):
        assert expected in text
    (row,) = [line.split() for line in text.splitlines() if "0.2402" in line]
    assert row == ["1", "40", "37", "0.2501", "0.2402", "0.2303", "1:20"]


def test_before_a_run_starts_the_wait_for_the_kernels_is_explained() -> None:
    assert "compiled, once on a machine" in screen([Compiling()])
    stream = io.StringIO()
    PlainLines(stream)(Compiling())
    assert "compiled, once on a machine" in stream.getvalue()


def test_a_new_snapshot_starts_a_new_curve() -> None:
    state = state_after(STORY)
    assert [each.valid_mrr for each in state.epochs] == [0.21]


def test_while_testing_the_display_counts_queries_and_promises_no_time() -> None:
    text = screen(STORY[:5])
    assert "ranking 5,000 queries" in text
    assert "at most 6:" not in text


def test_a_finished_run_leaves_only_its_table() -> None:
    text = screen([*STORY[:6], RunFinished(seconds=80.0)])
    assert "Learned in 1:20." in text
    assert "0.2402" in text
    assert "of at most" not in text


def test_a_resumed_run_says_where_it_goes_on() -> None:
    resumed: list[Event] = [RunStarted("brick", "lkge", snapshots=3, snapshot=1, epochs_done=12)]
    assert "resumed at snapshot 2 after 12 epochs" in screen(resumed)


def test_many_finished_snapshots_do_not_push_the_current_one_off_the_screen() -> None:
    events = [STORY[0], *map(finished, range(50)), started(50)]
    assert len(screen(events).splitlines()) < 24
    assert len(screen([*events, RunFinished(seconds=1.0)]).splitlines()) > 50


def test_forward_transfer_is_shown_before_its_snapshot_starts() -> None:
    text = screen([*STORY[:6], Evaluating(snapshot=1, queries=700)])
    assert "ranking 700 queries" in text
    assert "1:01" in text


def test_without_validation_facts_no_mrr_is_made_up() -> None:
    text = screen([*STORY[:2], epoch(1, math.nan)])
    assert "no facts to validate with" in text
    assert "best" not in text
    assert "nan" not in text


def test_plain_lines_without_validation_facts_make_no_mrr_up() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream)
    lines(epoch(1, math.nan))
    lines(replace(finished(), paper_mrr=math.nan))
    assert "validation" not in stream.getvalue()
    assert "MRR - (paper) 0.2303 (current)" in stream.getvalue()


@pytest.mark.parametrize("upto", range(len(STORY) + 1))
def test_every_moment_can_be_drawn(upto: int) -> None:
    screen(STORY[:upto])
    screen(STORY[:upto], patience=None)


def test_time_left_is_bounded_by_max_epochs_and_patience() -> None:
    events = [STORY[0], started(0), epoch(1), epoch(197, idle=1)]
    left = time_left(state_after(events), patience=3)
    assert left is not None
    assert (left.soonest, left.snapshot, left.run) == (4.0, 6.0, 6.0 + 2 * 200 * 2.0)
    assert time_left(state_after(events[:2]), patience=3) is None


def test_time_left_never_has_its_soonest_after_its_latest() -> None:
    left = time_left(state_after([STORY[0], started(0), epoch(199)]), patience=30)
    assert left is not None
    assert left.soonest == left.snapshot == 2.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([math.nan], ""),
        ([0.5, 0.5], "▁▁"),
        ([0.0, math.nan, 1.0], "▁█"),
        ([0.0, 0.5, 1.0], "▁▅█"),
    ],
)
def test_sparkline(values: list[float], expected: str) -> None:
    assert sparkline(values) == expected


def test_sparkline_keeps_the_latest() -> None:
    assert sparkline([9.0, 0.0, 1.0], width=2) == "▁█"


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.4, "0:00"), (59.6, "1:00"), (61, "1:01"), (3661, "1:01:01")]
)
def test_clock_time(seconds: float, expected: str) -> None:
    assert clock_time(seconds) == expected


def test_the_live_display_draws_what_it_was_told_last() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, height=40)
    with shown(console, patience=3) as display:
        for event in [*STORY[:6], RunFinished(seconds=80.0)]:
            display(event)
    output = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Learned in 1:20." in output
    assert "\x1b[?25h" in output, "the cursor comes back"


def test_plain_lines_are_one_per_snapshot_and_few_per_epoch() -> None:
    stream = io.StringIO()
    ticks = count(step=1)
    lines = PlainLines(stream, every=3.0, clock=lambda: float(next(ticks)))
    for event in [*STORY[:2], *(epoch(number) for number in range(1, 8)), *STORY[4:6]]:
        lines(event)
    printed = stream.getvalue().splitlines()
    assert [line for line in printed if " epoch " in line] == [
        f"snapshot 1/3 epoch {number}: loss 1.5000, "
        "validation MRR 0.2000 (best 0.2500), 123,457 facts/s"
        for number in (1, 4, 7)
    ]
    assert printed[0] == "lkge learns brick, 3 snapshots"
    assert printed[-1] == (
        "snapshot 1/3: done after 40 epochs (best 37) in 1:20, MRR 0.2402 (paper) 0.2303 (current)"
    )
    assert len(printed) == 7


def test_a_terminal_gets_the_live_display_and_a_file_plain_lines() -> None:
    with shown(Console(file=io.StringIO(), force_terminal=True)) as listener:
        assert not isinstance(listener, PlainLines)
    with shown(Console(file=io.StringIO(), force_terminal=False)) as listener:
        assert isinstance(listener, PlainLines)


def test_the_log_has_one_object_per_event(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonlLog(path)
    for event in STORY:
        log(event)
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [record["type"] for record in records] == [type(event).__name__ for event in STORY]
    assert records[2]["valid_mrr"] == 0.1
    assert all(datetime.fromisoformat(record["time"]).tzinfo for record in records)


def test_the_log_is_whole_after_every_event(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonlLog(path)
    for number, event in enumerate(STORY, start=1):
        log(event)
        assert path.read_text(encoding="utf-8").count("\n") == number


def test_a_resumed_log_cuts_the_line_that_a_kill_left_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    JsonlLog(path)(STORY[0])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type": "EpochFin')
    again = JsonlLog(path)
    again(STORY[1])
    again(STORY[2])
    assert path.read_bytes().startswith(whole)
    types = [json.loads(line)["type"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert types == ["RunStarted", "SnapshotStarted", "EpochFinished"]


def test_what_json_has_no_number_for_is_null(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    JsonlLog(path)(epoch(1, math.nan))
    assert json.loads(path.read_text(encoding="utf-8"))["valid_mrr"] is None
