from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from lkge.evaluation.results import PROTOCOLS, Accuracy, Results
from lkge.reports import tables
from lkge.reports.comparison import differences
from lkge.reports.page import page
from lkge.reports.relations import relation_grid
from lkge.reports.systems import systems_of

MakeRun = Callable[..., Results]


def with_relations(run: Results, heights: dict[str, tuple[float, int]]) -> Results:
    cells = {name: Accuracy(mrr, 0.1, 0.2, mrr / 2, n) for name, (mrr, n) in heights.items()}
    return replace(run, relations=dict.fromkeys(PROTOCOLS, cells))


def cells(grid: tables.Grid) -> list[list[str]]:
    return [[cell.text for cell in row] for section in grid.sections for row in section]


def test_only_runs_with_the_same_seed_and_facts_are_compared(make_run: MakeRun) -> None:
    mine = [make_run(mrr=m, seed=s) for s, m in ((1, 0.30), (2, 0.34), (3, 0.9))]
    theirs = [make_run(method="ewc", mrr=m, seed=s) for s, m in ((2, 0.30), (1, 0.28), (4, 0.1))]
    (found,) = differences(systems_of([*mine, *theirs]), "paper")
    gains = [mine[0].mrr - theirs[1].mrr, mine[1].mrr - theirs[0].mrr]
    assert (found.one, found.other, found.seeds) == ("lkge", "ewc", 2)
    assert found.mean == pytest.approx(sum(gains) / 2)
    assert found.half_width == pytest.approx(12.7062 * abs(gains[0] - gains[1]) / 2, rel=1e-4)
    assert 0 < found.p_seeds < 1
    assert math.isnan(found.p_relations)
    other_facts = [replace(run, data_digest=name) for run, name in zip(mine, "abc", strict=True)]
    same = [replace(theirs[0], data_digest="b"), replace(theirs[1], data_digest="z")]
    assert [d.seeds for d in differences(systems_of([*other_facts, *same]), "paper")] == [1]
    assert differences(systems_of([other_facts[0], same[1]]), "paper") == []


def test_relations_test_a_single_seed(make_run: MakeRun) -> None:
    names = [f"r{k}" for k in range(6)]
    mine = with_relations(make_run(), dict.fromkeys(names, (0.5, 100)))
    theirs = with_relations(make_run(method="ewc"), dict.fromkeys(names, (0.4, 100)))
    (found,) = differences(systems_of([mine, theirs]), "current")
    assert (found.relations, found.p_relations) == (6, 2 / 2**6)
    assert found.is_tested
    few = with_relations(make_run(method="ewc"), {"r0": (0.1, 900), "r1": (0.4, 10), "z": (1, 1)})
    (found,) = differences(systems_of([mine, few]), "current")
    assert (found.relations, found.p_relations) == (2, 0.5)


def test_the_reference_is_compared_with_all_others(make_run: MakeRun) -> None:
    systems = systems_of([make_run(method=name) for name in ("lkge", "ewc", "si")])
    assert [d.other for d in differences(systems, "paper")] == ["ewc", "si"]
    assert {d.one for d in differences(systems, "paper", "si")} == {"si"}


def test_tables_have_what_is_tested_only(make_run: MakeRun) -> None:
    alone = [make_run(), make_run(method="ewc")]
    assert tables.report_grids(alone) == tables.summary_grids(alone)
    runs = [make_run(method=name, seed=s, mrr=0.3) for name in ("lkge", "ewc") for s in (1, 2, 3)]
    over_seeds, paper, current = tables.report_grids(runs)[2:]
    assert over_seeds.title == "ENTITY, over seeds"
    assert cells(over_seeds)[0][:3] == ["lkge", "3", "0.282"]
    assert " to " in cells(over_seeds)[0][3]
    assert (paper.title, current.title) == tuple(
        f"ENTITY, lkge minus others, {protocol} protocol" for protocol in PROTOCOLS
    )
    ((row,),) = paper.sections
    assert [cell.text for cell in row[:2]] == ["ewc", "3"]
    assert [cell.text for cell in row[5:]] == ["–", "–"]  # noqa: RUF001
    text = page(runs, [])
    assert paper.title in text
    assert over_seeds.title in text
    found = tables.plain(runs)["differences"]
    assert [(d["one"], d["other"], d["protocol"]) for d in found] == [
        *(("lkge", "ewc", "paper"), ("lkge", "ewc", "current")),
    ]
    assert found[0]["p_relations"] is None


def test_relations_with_many_facts_and_the_best_and_worst(make_run: MakeRun) -> None:
    heights = {f"r{k:02}": (k / 100, 200 - 2 * k) for k in range(40)} | {"tiny": (1.0, 18)}
    run = with_relations(make_run(), heights)
    (system,) = systems_of([run])
    grid = relation_grid(system)
    assert grid is not None
    most, best, worst = ([row[0].text for row in section] for section in grid.sections)
    assert most == ["r00", "r01", "r02", "r03", "r04"]
    assert best == ["r39", "r38", "r37", "r36", "r35"]
    assert worst == ["r04", "r03", "r02", "r01", "r00"]
    assert cells(grid)[1] == ["r01", "99", "0.010", "0.005", "0.010", "0.005"]
    assert "Of 41 relations" in page([run], [])
    assert "r39" in tables.markdown([run])


def test_a_few_relations_are_all_shown_and_none_are_no_table(make_run: MakeRun) -> None:
    runs = [with_relations(make_run(seed=s), {"a": (s / 10, 4), "<b>": (0.1, 2)}) for s in (1, 2)]
    (system,) = systems_of(runs)
    grid = relation_grid(system)
    assert grid is not None
    assert [row[:3] for row in cells(grid)] == [["a", "2", "0.150"], ["<b>", "1", "0.100"]]
    assert "<b>" not in page(runs, [])
    (older,) = systems_of([make_run()])
    assert relation_grid(older) is None
