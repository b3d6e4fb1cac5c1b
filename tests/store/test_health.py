"""A graph that forgets is found out, and one that does not is left in peace."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.living import QUICK, bridge, made, ring

from lkge.data.formats import Triple
from lkge.living import init, open
from lkge.store import health
from lkge.store.graph import LivingGraph
from lkge.store.holdout import HoldOut
from lkge.store.quality import Quality
from lkge.store.records import Comparison, StoreConfig, VersionRecord

LEARNS: dict[str, Any] = {
    "score": "complex",
    "dim": 16,
    "learning_rate": 0.05,
    "max_epochs": 20,
    "patience": 20,
    "batch_size": 128,
    "seed": 3,
    "backend": "torch",
}
FORGETS = {**LEARNS, "method": "fine-tune", "loss": "softmax"}
ADDS = 24
NOTHING = Comparison()


def grown(folder: Path, adds: int, **changes: Any) -> LivingGraph:
    """Eighty people, and then `adds` batches of three newcomers who know an old one each."""
    graph = init(folder, **changes)
    graph.add(ring(0, 80, (1, 2, 3, 5)), valid=0.3)
    for number in range(adds):
        graph.add(bridge(3 * number % 78, 80 + 3 * number, 3), valid=0)
    return graph


def test_many_small_adds_that_damage_old_facts_are_worse_and_the_remedy_helps(
    tmp_path: Path,
) -> None:
    graph = grown(tmp_path / "KG", ADDS, **FORGETS)
    found = graph.health()
    assert (found.version, found.since) == (1 + ADDS, 1)
    assert (found.verdict, found.causes) == ("worse", ("quality",))
    quality = found.since_baseline
    assert quality.facts == 48
    assert quality.mrr < 0.5 * quality.mrr_before
    assert quality.hits10 < quality.hits10_before
    assert f"`lkge relearn {tmp_path / 'KG'}`" in found.remedy
    assert f"{100 * quality.relative_loss:.1f} %" in found.summary
    assert "a significant loss" in found.summary
    crossed = [line.version for line in graph.log() if any("health is" in w for w in line.warnings)]
    assert len(crossed) == 1, "the warning comes when the verdict changes, and only then"
    assert all(line.verdict == "worse" for line in graph.log()[crossed[0] :])

    relearned = graph.relearn()
    assert relearned.last_update.mrr > 5 * relearned.last_update.mrr_before
    assert relearned.verdict == "good"
    assert relearned.since_baseline.mrr > relearned.since_baseline.mrr_before
    assert graph.health().remedy == ""


def test_a_graph_that_does_not_forget_is_good(tmp_path: Path) -> None:
    graph = grown(tmp_path / "KG", ADDS, **LEARNS)
    lines = graph.log()
    consolidations = [line for line in lines if line.kind == "consolidate"]
    assert len(lines) == 2 + ADDS + len(consolidations)
    assert consolidations
    for line in consolidations:
        assert (line.since_baseline.facts, line.touched_facts.facts) == (48, 0)
    assert {line.verdict for line in lines[:2]} == {"unknown"}
    assert {line.verdict for line in lines[2:]} == {"good"}
    assert not any(line.warnings for line in lines)
    found = graph.health()
    assert found.since_baseline.mrr > 0.9
    assert (found.remedy, found.causes) == ("", ())
    assert "no significant loss" in found.summary


def test_slow_decay_adds_up_although_no_step_is_a_loss(tmp_path: Path) -> None:
    """Most updates are within noise of the one before; all together are not."""
    config = StoreConfig()
    values = np.tile([0.9, 0.5], 100)[:, None] * np.ones(2)
    noise = np.random.default_rng(0).normal(0, 0.05, (45, 200, 1))
    now = [values * (1 - 0.006 * n) + (noise[n] if n else 0) for n in range(45)]
    steps = [of(compare(a, b)) for a, b in pairwise(now)]
    assert sum(bool(health.update_warnings(step.last_update, config)) for step in steps) <= 5
    whole = of(compare(now[0], now[-1]))
    assert whole.since_baseline.relative_loss == pytest.approx(0.26, abs=0.02)
    assert health.causes_of(whole, config) == ("quality",)


def compare(before: Any, now: Any) -> Comparison:
    from lkge.store.quality import compared

    return compared(before, now)


def of(
    quality: Comparison = NOTHING,
    residue: Comparison = NOTHING,
    residue_error: float = 0.0,
    untrained: list[float] | None = None,
) -> Quality:
    """A quality made by hand; `untrained` are the values 1/rank of the hold-out set."""
    values = np.array(untrained or [])[:, None] * np.ones(2)
    facts = np.zeros((len(values), 3), np.int32)
    hold_out = HoldOut.unranked(facts, 1).with_values(last=values)
    rest = [NOTHING] * 2
    sets, measured = (hold_out, HoldOut(), quality, {}, quality), (residue, residue_error)
    return Quality(*sets, *rest, *measured, mrr_new=0.5, candidates=9)


def fallen(share: float, facts: int = 100, error: float = 0.001) -> Comparison:
    return Comparison(facts, 0.5, 0.5 * (1 - share), 0.7, 0.6, error)


@pytest.mark.parametrize(
    ("comparison", "causes"),
    [
        (fallen(0.25), ("quality",)),
        (fallen(0.25, facts=19), ()),
        (fallen(0.25, error=0.07), ()),
        (fallen(0.04), ()),
        (fallen(0.06), ("quality",)),
        (fallen(-0.5), ()),
        (NOTHING, ()),
        (Comparison(1, 0.5, 0.1), ()),
    ],
)
def test_a_loss_counts_beyond_a_share_and_beyond_noise(
    comparison: Comparison, causes: tuple[str, ...]
) -> None:
    assert health.causes_of(of(comparison), StoreConfig()) == causes


def test_a_worse_graph_stays_worse_until_the_loss_itself_is_gone() -> None:
    config, noisy = StoreConfig(), fallen(0.2, error=0.07)
    assert health.causes_of(of(noisy), config) == ()
    assert health.causes_of(of(noisy), config, ("quality",)) == ("quality",)
    assert health.causes_of(of(fallen(0.01, error=0.07)), config, ("quality",)) == ()


@pytest.mark.parametrize(
    ("comparison", "warned"),
    [
        (fallen(0.02, error=0.001), True),
        (fallen(0.02, error=0.006), False),
        (fallen(0.009, error=0.0), False),
        (fallen(0.3, facts=19), False),
        (NOTHING, False),
    ],
)
def test_one_update_is_warned_of_above_one_percent_and_noise(
    comparison: Comparison, warned: bool
) -> None:
    assert bool(health.update_warnings(comparison, StoreConfig())) == warned


def test_a_model_that_does_not_forget_what_was_retracted_is_worse() -> None:
    config, residue = StoreConfig(), Comparison(30, 0.9, 0.9, 1.0, 1.0, 0.01)
    untrained = [0.3, 0.5] * 20
    good, bad = fallen(0.0), of(fallen(0.0), residue, 0.02, untrained)
    assert health.causes_of(bad, config) == ("residue",)
    forgotten = dataclasses.replace(residue, mrr=0.1)
    assert health.causes_of(of(good, forgotten, 0.02, untrained), config) == ()
    assert health.causes_of(of(good, residue, 0.3, untrained), config) == (), "noise"
    few = dataclasses.replace(residue, facts=5)
    assert health.causes_of(of(good, few, 0.02, untrained), config) == ()
    record = VersionRecord(3, "add", "then")
    judged = health.recorded(record, bad, VersionRecord(2, "add", "then"), config, "do this")
    assert (judged.verdict, judged.causes) == ("worse", ("residue",))
    assert judged.residue == residue
    (warning,) = judged.warnings
    assert "30 retracted facts still have MRR 0.900" in warning
    assert warning.endswith("; do this")


def test_few_facts_are_unknown(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    graph.add(bridge(0, 40, 3))
    found = graph.health()
    assert found.verdict == "unknown"
    assert "12 older held-out facts are too few to judge" in found.summary
    assert found.since_baseline.facts == 12
    assert not math.isnan(found.since_baseline.mrr)


def test_an_empty_graph_is_unknown(tmp_path: Path) -> None:
    found = init(tmp_path / "KG", **QUICK).health()
    assert (found.verdict, found.since, found.remedy) == ("unknown", None, "")


def test_the_residue_of_a_retraction_is_followed_over_versions(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG", **LEARNS)
    gone: list[Triple] = ring(0, 40)[:9]
    first = graph.add([], retract=gone)
    assert first.residue.facts == 9
    assert first.residue.mrr < first.residue.mrr_before
    second = graph.add(bridge(0, 40, 2), valid=0)
    assert (second.residue.facts, second.residue.mrr_before) == (9, first.residue.mrr_before)
    third = graph.add(gone[:4], valid=0)
    assert third.residue.facts == 5
    assert graph.check() == []


def test_the_record_has_age_classes_and_touched_rows(tmp_path: Path) -> None:
    graph = init(tmp_path / "KG", **QUICK)
    graph.add(ring(0, 40), valid=0.5)
    second = graph.add([*ring(40, 60), *bridge(0, 40, 20)], valid=0.3)
    assert second.by_age.keys() == {"0", "1-2"}
    assert second.by_age["1-2"] == second.since_baseline
    assert second.by_age["0"].loss == 0
    touched, untouched = second.touched_facts.facts, second.untouched_facts.facts
    assert touched > 0
    assert untouched > 0
    assert touched + untouched == second.last_update.facts == second.since_baseline.facts


def test_a_rollback_takes_the_verdict_and_the_baseline_back(tmp_path: Path) -> None:
    graph = grown(tmp_path / "KG", 3, **LEARNS)
    before = graph.reader.hold_out
    graph.add(bridge(9, 200, 3), valid=0)
    record = graph.rollback(3)
    assert record.since_baseline == graph.log()[3].since_baseline
    assert record.verdict == graph.log()[3].verdict == "good"
    assert np.array_equal(graph.reader.hold_out.baseline, before.baseline)


def test_the_remedy_names_a_good_version_and_what_is_possible(tmp_path: Path) -> None:
    graph = grown(tmp_path / "KG", 1, known=False, **{**LEARNS, "max_epochs": 2})
    record = dataclasses.replace(graph.reader.record, verdict="worse", causes=("quality",))
    good = dataclasses.replace(graph.log()[1], verdict="good")
    graph.reader.log = (graph.log()[0], good, record)
    graph.reader.manifest = dataclasses.replace(
        graph.reader.manifest, version=2, record=dataclasses.replace(record, version=2)
    )
    remedy = graph.health().remedy
    assert "make a graph anew" in remedy
    assert "relearn" not in remedy
    assert f"`lkge rollback {tmp_path / 'KG'} 1` goes back to the last good version" in remedy
    assert "larger --dim" in health.remedy_for("KG", True, "relearn")


def test_what_is_held_out_is_not_trained_when_it_is_added_again(tmp_path: Path) -> None:
    """Also where no known facts are kept, so that nobody knows that it is not new."""
    graph = init(tmp_path / "KG", known=False, **QUICK)
    graph.add(ring(0, 40), valid=0.4)
    assert len(graph.reader.hold_out) == 24
    graph.add(ring(0, 40), valid=0)
    assert len(graph.reader.hold_out) == 0, "all of it was trained on now"
    assert open(tmp_path / "KG").check() == []
