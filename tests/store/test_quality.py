"""Ranks that can be compared over all versions, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.backends.made import NUMBA
from tests.store.living import made, ring

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, no_facts, with_inverses
from lkge.models.predictor import Predictor, TablePredictor
from lkge.models.scores import TransE
from lkge.store.holdout import HoldOut
from lkge.store.quality import Quality, compared, measured, stable_sample, tracked
from lkge.store.records import StoreConfig
from lkge.store.subgraph import Subgraph

RELATION = torch.from_numpy(np.random.default_rng(9).normal(size=(4, 6)).astype(np.float32))
NOBODY = np.empty(0, np.int64)


def rows(count: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32))


def facts_below(entities: int, count: int, seed: int = 1) -> Facts:
    facts = np.random.default_rng(seed).integers(0, entities, (count, 3))
    facts[:, 1] = 2 * (facts[:, 1] % 2)
    return np.unique(facts, axis=0).astype(np.int32)


@dataclass(frozen=True)
class Model:
    """A table as the model of a version."""

    entity: torch.Tensor

    @property
    def num_entities(self) -> int:
        return len(self.entity)

    @property
    def has_rows(self) -> bool:
        return True

    def over(self, candidates: Subgraph) -> Predictor:
        return TablePredictor(self.entity[candidates.ids], RELATION, TransE(), backend=NUMBA)


def values_by_hand(
    entity: torch.Tensor, facts: Facts, entities: int, known: Facts
) -> list[list[float]]:
    """1/rank and Hits@10 among the first `entities`, one query at a time."""
    predictor = TablePredictor(entity, RELATION, TransE(), backend=NUMBA)
    answers = {tuple(fact) for fact in with_inverses(known).tolist()}
    found = []
    for s, r, o in facts.tolist():
        ranks = []
        for subject, relation, target in ((s, r, o), (o, r ^ 1, s)):
            scores = predictor.candidate_scores(subject, relation)
            others = [
                e for e in range(entities) if e != target and (subject, relation, e) not in answers
            ]
            ranks.append(1 + sum(scores[e] > scores[target] for e in others))
        found.append(
            [float(np.mean([1 / r for r in ranks])), float(np.mean([r <= 10 for r in ranks]))]
        )
    return found


def first_measured(entity: torch.Tensor, facts: Facts) -> Quality:
    """Version 1 brings all facts."""
    hold_out = HoldOut.unranked(facts, 1)
    models = Model(entity[:0]), Model(entity)
    known = KnownFacts.build([no_facts()]), KnownFacts.build([facts])
    return measured(hold_out, HoldOut(), 1, NOBODY, models, known, StoreConfig())


def next_measured(
    before: Quality,
    version: int,
    old: torch.Tensor,
    new: torch.Tensor,
    touched: tuple[int, ...] = (),
    new_baseline: bool = False,
) -> Quality:
    known = KnownFacts.build([before.hold_out.facts])
    return measured(
        before.hold_out,
        before.retracted,
        version,
        np.array(touched, dtype=np.int64),
        (Model(old), Model(new)),
        (known, known),
        StoreConfig(),
        new_baseline=new_baseline,
    )


def test_values_are_those_of_a_plain_count() -> None:
    entity, facts = rows(40), facts_below(40, 50)
    found = first_measured(entity, facts).hold_out
    expected = values_by_hand(entity, facts, 40, facts)
    assert found.baseline == pytest.approx(np.array(expected))
    assert np.array_equal(found.baseline, found.last)
    assert set(found.entities.tolist()) == {40}


def test_more_entities_do_not_make_an_unchanged_model_worse() -> None:
    entity, facts = rows(200), facts_below(40, 50)
    first = first_measured(entity[:40], facts)
    second = next_measured(first, 2, entity[:40], entity)
    assert second.since_baseline.facts == len(facts)
    assert second.since_baseline.loss == 0
    assert second.since_baseline.error == 0
    among_all = values_by_hand(entity, facts, 200, facts)
    assert np.mean([value for value, _ in among_all]) < first.hold_out.baseline[:, 0].mean()


def test_each_fact_is_ranked_among_the_entities_of_its_own_version() -> None:
    entity, old, new = rows(90), facts_below(40, 30), facts_below(90, 30, seed=3)
    assert not KnownFacts.build([old]).contains(new).any()
    first = first_measured(entity[:40], old)
    hold_out = first.hold_out.joined(HoldOut.unranked(new, 2))
    known = KnownFacts.build([old]), KnownFacts.build([np.concatenate([old, new])])
    models = Model(entity[:40]), Model(entity)
    second = measured(hold_out, HoldOut(), 2, NOBODY, models, known, StoreConfig())
    assert second.hold_out.entities.tolist() == [40] * len(old) + [90] * len(new)
    everything = np.concatenate([old, new])
    for part, among in ((slice(0, len(old)), 40), (slice(len(old), None), 90)):
        expected = values_by_hand(entity, everything[part], among, everything)
        assert second.hold_out.last[part] == pytest.approx(np.array(expected))
    assert second.since_baseline.facts == len(old), "new facts have nothing to be compared with"


def test_a_damaged_model_is_below_the_baseline_and_the_baseline_stays() -> None:
    entity, facts = rows(60), facts_below(60, 80)
    first = first_measured(entity, facts)
    good = first.hold_out.with_values(baseline=np.ones((len(facts), 2)))
    second = next_measured(
        Quality(**{**first.__dict__, "hold_out": good}), 2, entity, rows(60, seed=5)
    )
    assert second.since_baseline.loss > 0.5
    assert (second.hold_out.baseline == 1).all()
    assert second.by_age.keys() == {"1-2"}
    assert second.by_age["1-2"] == second.since_baseline


def test_the_baseline_rises_with_the_quality_but_not_by_chance() -> None:
    entity, facts = rows(60), facts_below(60, 80)
    first = first_measured(entity, facts)
    poor = first.hold_out.with_values(baseline=np.full((len(facts), 2), 0.001))
    better = next_measured(Quality(**{**first.__dict__, "hold_out": poor}), 2, entity, entity)
    assert better.since_baseline.loss < 0
    assert np.array_equal(better.hold_out.baseline, first.hold_out.baseline)
    noise = next_measured(first, 2, entity, rows(60, seed=8))
    assert np.array_equal(noise.hold_out.baseline, first.hold_out.baseline)
    again = next_measured(first, 2, entity, rows(60, seed=8), new_baseline=True)
    assert np.array_equal(again.hold_out.baseline, again.hold_out.last)


def test_touched_and_untouched_facts_are_compared_with_the_last_version() -> None:
    entity, facts = rows(60), facts_below(60, 80)
    first = first_measured(entity, facts)
    changed = entity.clone()
    changed[7] += 3
    second = next_measured(first, 2, entity, changed, touched=(7,))
    named = (facts[:, (0, 2)] == 7).any(axis=1)
    assert second.touched_facts.facts == named.sum() > 0
    assert second.touched_facts.facts + second.untouched_facts.facts == len(facts)
    before, now = first.hold_out.last, second.hold_out.last
    assert second.touched_facts == compared(before[named], now[named])
    assert second.touched_facts.loss != 0
    assert second.last_update == compared(before, now)


def test_facts_of_older_files_get_a_baseline_under_the_last_version() -> None:
    entity, facts = rows(60), facts_below(40, 50)
    old_file = {"facts": facts, "since": np.ones(len(facts), np.int32)}
    hold_out, known = HoldOut.from_arrays(old_file), KnownFacts.build([facts])
    models = Model(entity[:40]), Model(rows(60, seed=4))
    found = measured(hold_out, HoldOut(), 5, NOBODY, models, (known, known), StoreConfig())
    assert set(found.hold_out.entities.tolist()) == {40}
    expected = values_by_hand(entity[:40], facts, 40, facts)
    assert found.hold_out.baseline == pytest.approx(np.array(expected))
    assert found.last_update == found.since_baseline


def test_retracted_facts_are_ranked_as_known_and_then_as_unknown() -> None:
    entity, facts = rows(50), facts_below(50, 60)
    gone, kept = facts[:10], facts[10:]
    retracted = tracked(HoldOut(), gone, no_facts(), 2, np.random.default_rng(0), 99)
    known = KnownFacts.build([facts]), KnownFacts.build([kept])
    new = rows(50, seed=6)
    models = Model(entity), Model(new)
    found = measured(HoldOut(), retracted, 2, NOBODY, models, known, StoreConfig())
    before = np.array(values_by_hand(entity, gone, 50, facts))
    after = np.array(values_by_hand(new, gone, 50, kept))
    assert found.residue == compared(before, after)
    assert found.since_baseline.facts == 0
    later = tracked(found.retracted, no_facts(), gone[:3], 3, np.random.default_rng(0), 99)
    assert np.array_equal(later.facts, gone[3:]), "what is added again is no longer tracked"
    assert later.baseline == pytest.approx(before[3:])
    few = tracked(found.retracted, facts[20:40], no_facts(), 3, np.random.default_rng(0), 12)
    assert len(few) == 12


def test_a_comparison_is_paired() -> None:
    before = np.array([[1.0, 1.0], [0.5, 1.0], [0.25, 0.0]])
    found = compared(before, before - 0.1)
    assert (found.facts, found.mrr_before) == (3, pytest.approx(1.75 / 3))
    assert found.loss == pytest.approx(0.1)
    assert found.hits10_before == pytest.approx(2 / 3)
    assert found.error == pytest.approx(0, abs=1e-12), "all facts lost the same"
    uneven = compared(before, before * np.array([[1.0], [0.5], [0.5]]))
    differences = np.array([0, 0.25, 0.125])
    assert uneven.error == pytest.approx(differences.std(ddof=1) / np.sqrt(3))
    assert np.isnan(compared(before[:1], before[:1]).error)
    assert compared(before[:0], before[:0]).facts == 0


def test_the_sample_of_a_graph_is_the_beginning_of_that_of_a_larger_one() -> None:
    assert stable_sample(100, 100).tolist() == list(range(100))
    large = stable_sample(100_000, 1_000)
    for entities in (1_000, 5_000, 40_000):
        assert np.array_equal(stable_sample(entities, 1_000), large[large < entities])
    assert len(large) == pytest.approx(1_000 * (1 + np.log(100)), rel=0.05)


def test_the_mean_of_each_version_and_of_the_newest(tmp_path: Path) -> None:
    graph = made(tmp_path / "KG")
    graph.add(ring(0, 20), valid=0.4)
    before = graph.reader.hold_out
    record = graph.add(ring(20, 40), valid=0.4, consolidate=False)
    now = graph.reader.hold_out
    assert record.version == graph.version
    fresh = now.since == record.version
    assert record.mrr_new == pytest.approx(now.last[fresh, 0].mean())
    assert record.by_age["0"].mrr == pytest.approx(record.mrr_new)
    assert record.mrr_old == pytest.approx(now.last[~fresh, 0].mean())
    assert record.mrr_old_before == pytest.approx(before.last[:, 0].mean())
    assert record.candidates == record.entities
