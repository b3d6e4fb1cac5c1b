"""Two systems are compared by the runs that share a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lkge.evaluation.results import Results
from lkge.reports.systems import System
from lkge.studies.study import SystemSpec
from lkge.studies.tables import Entry, bytes_per_fact, paired_comparison

MakeRun = Callable[..., Results]


def line(make_run: MakeRun, name: str, heights: dict[int, float]) -> Entry:
    runs = [make_run("ENTITY", name, height, seed=seed) for seed, height in heights.items()]
    return Entry(SystemSpec(name), System("ENTITY", name, tuple(runs)), {})


def test_only_shared_seeds_are_compared(make_run: MakeRun) -> None:
    mine = line(make_run, "ewc", {11: 0.30, 22: 0.34, 33: 0.90})
    theirs = line(make_run, "re-train", {22: 0.30, 11: 0.28})
    grid = paired_comparison("ewc", "re-train", {"ENTITY": [mine, theirs], "FACT": [mine]})
    ((row,),) = grid.sections
    pairs = list(zip(mine.system.runs[:2], reversed(theirs.system.runs), strict=True))
    gains = [one.mrr - other.mrr for one, other in pairs]
    assert [cell.text for cell in row[:2]] == ["ENTITY", "2"]
    assert row[2].text == f"+{sum(gains) / 2:.3f} ±{abs(gains[0] - gains[1]) / 2**0.5:.3f}"
    assert row[6].text == "× 1.0"


def test_times_are_those_of_the_first_seed_that_both_have(make_run: MakeRun) -> None:
    mine = line(make_run, "ewc", {11: 0.0, 22: 9.0, 33: 9.0})
    theirs = line(make_run, "re-train", {22: 0.0, 11: 1.0})
    ((row,),) = paired_comparison("ewc", "re-train", {"ENTITY": [mine, theirs]}).sections
    assert row[6].text == "× 1.5"


def test_nothing_is_said_of_one_alone(make_run: MakeRun) -> None:
    assert (
        paired_comparison(
            "ewc", "re-train", {"ENTITY": [line(make_run, "ewc", {11: 0.3})]}
        ).sections
        == ()
    )


def test_what_is_carried_is_shared_among_all_facts(make_run: MakeRun) -> None:
    run = make_run("ENTITY", "ewc", 0.3)
    records = [
        replace(record, train_facts=facts, carried_bytes=carried)
        for record, facts, carried in zip(run.snapshots, (10, 20, 30), (5, 50, 600), strict=False)
    ]
    assert bytes_per_fact(replace(run, snapshots=tuple(records[:3]))) == pytest.approx(10)
