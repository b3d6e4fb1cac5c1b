from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from lkge.configure import EVERGREEN
from lkge.evaluation.results import ProtocolResult, Results
from lkge.reports.systems import MEASURES, STATE, TIME, best_text, by_dataset, spread, systems_of

MakeRun = Callable[..., Results]
MRR = MEASURES["paper"][0]


def without(run: Results, section: str, setting: str) -> Results:
    """The results of a release that did not have the setting."""
    part = {name: value for name, value in run.config[section].items() if name != setting}
    assert part != run.config[section]
    return replace(run, config={**run.config, section: part})


def test_runs_that_differ_in_seed_and_place_are_one_system(make_run: MakeRun) -> None:
    runs = [make_run(seed=1), make_run(seed=2, backend="torch"), make_run("FACT")]
    systems = systems_of(runs)
    assert [(system.dataset, system.name, system.seeds) for system in systems] == [
        ("ENTITY", "lkge", [1, 2]),
        ("FACT", "lkge", [11]),
    ]


def test_variants_of_a_method_are_named_by_what_sets_them_apart(make_run: MakeRun) -> None:
    runs = [
        make_run(),
        make_run(autoencoder=False),
        make_run(regularization_weight=0.5, autoencoder_weight=1.0),
    ]
    names = [system.name for system in systems_of(runs)]
    assert names == [
        "lkge",
        "lkge, no autoencoder",
        "lkge, autoencoder weight 1.0, regularization weight 0.5",
    ]


def test_a_part_that_is_off_is_named_even_without_its_siblings(make_run: MakeRun) -> None:
    (system,) = systems_of([make_run(fine_tuning=False, regularization_weight=0.5)])
    assert system.name == "lkge, no fine tuning"


def test_a_preset_needs_no_words(make_run: MakeRun) -> None:
    runs = [make_run(**EVERGREEN), make_run(**{**EVERGREEN, "replay_queries": 7})]
    assert [system.name for system in systems_of(runs)] == [
        "evergreen",
        "evergreen, replay queries 7",
    ]


def test_the_score_is_enough_where_it_tells_all_variants_apart(make_run: MakeRun) -> None:
    runs = [make_run(score="rotate", n3=0.1, autoencoder=False), make_run(score="transe", n3=0.2)]
    assert [system.name for system in systems_of(runs)] == [
        "lkge, no autoencoder, score rotate",
        "lkge, score transe",
    ]
    runs.append(make_run(score="transe", n3=0.3))
    assert systems_of(runs)[-1].name == "lkge, n3 0.3"


def test_a_setting_that_came_later_makes_no_other_system(make_run: MakeRun) -> None:
    new, old = make_run(seed=1), make_run(seed=2)
    (system,) = systems_of([new, without(old, "method", "regularization_form")])
    assert (system.name, system.seeds) == ("lkge", [1, 2])


def test_a_setting_that_came_later_and_is_another_now_tells_systems_apart(
    make_run: MakeRun,
) -> None:
    new, old = make_run(**EVERGREEN), make_run(**EVERGREEN)
    old = without(old, "training", "candidate_fraction")
    names = [system.name for system in systems_of([new, old])]
    assert names == ["evergreen", "evergreen, candidate fraction 1.0"]


def test_a_run_of_release_0_1_is_of_the_same_system(make_run: MakeRun) -> None:
    new = make_run(seed=1, regularization_weight=0.5)
    flat = {"dataset": "ENTITY", "method": "lkge", "seed": 2, "alpha": 0.5, "memory": 5000}
    (system,) = systems_of([new, replace(new, config=flat)])
    assert system.seeds == [1, 2]


def test_a_reference_is_never_the_best(make_run: MakeRun) -> None:
    runs = [
        make_run(method="re-train", mrr=0.4),
        make_run(mrr=0.3),
        make_run(method="snapshot", mrr=0.1),
    ]
    retrain, lkge, snapshot = systems_of(runs)
    champion = best_text([retrain, lkge, snapshot], MRR)
    assert lkge.is_best(MRR, champion)
    assert not snapshot.is_best(MRR, champion)
    assert not retrain.is_best(MRR, MRR.text(retrain.spread(MRR).mean))


def test_datasets_come_together_in_the_order_of_their_first_runs(make_run: MakeRun) -> None:
    runs = [make_run("B"), make_run("A"), make_run("B", "snapshot")]
    groups = by_dataset(systems_of(runs))
    assert [(name, [s.name for s in group]) for name, group in groups.items()] == [
        ("B", ["lkge", "snapshot"]),
        ("A", ["lkge"]),
    ]


def test_spread_is_mean_and_sample_deviation_of_what_is_known() -> None:
    both = spread([1.0, math.nan, 3.0])
    assert (both.mean, both.deviation) == (2.0, pytest.approx(math.sqrt(2)))
    assert math.isnan(spread([1.0]).deviation)
    assert math.isnan(spread([]).mean)


def test_matrix_and_forward_are_means_over_the_runs_that_have_them(make_run: MakeRun) -> None:
    long, short = make_run(seed=1), make_run(seed=2, mrr=0.434, snapshots=2)
    (system,) = systems_of([long, short])
    paper, other = long.protocols["paper"], short.protocols["paper"]
    matrix = system.matrix("paper")
    assert [len(row) for row in matrix] == [1, 2, 3, 4, 5]
    assert matrix[1][0] == pytest.approx((paper.matrix[1][0].mrr + other.matrix[1][0].mrr) / 2)
    assert matrix[4][2] == paper.matrix[4][2].mrr
    assert system.forward("paper") == pytest.approx([0.167, 0.117, 0.117, 0.117])
    assert system.per_snapshot(lambda record: record.seconds)[2] == pytest.approx(22.34)


def test_measures_of_a_run_that_has_not_been_tested_are_nan(make_run: MakeRun) -> None:
    untested = replace(make_run(), snapshots=(), protocols={"paper": ProtocolResult()})
    for measure in (*MEASURES["paper"], *MEASURES["current"], STATE):
        assert math.isnan(measure.of(untested))
    (system,) = systems_of([untested])
    assert (system.matrix("paper"), system.forward("current")) == ([], [])


def test_the_best_is_the_highest_accuracy_and_the_lowest_cost(make_run: MakeRun) -> None:
    systems = systems_of([make_run(mrr=0.3), make_run(method="snapshot", mrr=0.1, carried=0)])
    assert best_text(systems, MRR) == MRR.text(systems[0].spread(MRR).mean)
    assert best_text(systems, TIME) == TIME.text(systems[1].spread(TIME).mean)
    assert best_text(systems, STATE) == "0 B"


def test_nobody_is_best_alone_or_when_all_read_the_same(make_run: MakeRun) -> None:
    assert best_text(systems_of([make_run()]), MRR) is None
    assert best_text(systems_of([make_run(), make_run(method="snapshot")]), TIME) is None
