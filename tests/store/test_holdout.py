"""The hold-out set is a fair sample, and its ranks are those of a plain count."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lkge.data.snapshots import Facts
from lkge.errors import DamagedFile
from lkge.store.holdout import (
    RETRACTED,
    HoldOut,
    age_class,
    age_label,
    mean_drift,
    sample_candidates,
)


def random_facts(count: int, entities: int, seed: int = 0) -> Facts:
    generator = np.random.default_rng(seed)
    facts = generator.integers(0, entities, (count, 3))
    facts[:, 1] = 2 * generator.integers(0, 2, count)
    return np.unique(facts, axis=0).astype(np.int32)


def test_it_grows_and_remembers_which_version_brought_what() -> None:
    first, second = random_facts(5, 9), random_facts(4, 9, seed=1)
    both = (
        HoldOut()
        .grown(first, 1, np.random.default_rng(0), 99)
        .grown(second, 2, np.random.default_rng(0), 99)
    )
    assert np.array_equal(both.facts[both.since == 1], first)
    assert np.array_equal(both.facts[both.since == 2], second)
    assert np.array_equal(HoldOut.from_arrays(both.arrays()).facts, both.facts)


def test_too_many_are_thinned_at_random_but_never_reordered() -> None:
    first, second = random_facts(40, 30), random_facts(40, 30, seed=1)
    kept = (
        HoldOut()
        .grown(first, 1, np.random.default_rng(0), 10)
        .grown(second, 2, np.random.default_rng(1), 10)
    )
    assert len(kept) == 10
    assert set(kept.since.tolist()) == {1, 2}
    assert (np.diff(kept.since) >= 0).all()


def grown_by(sizes: dict[int, int], size: int, **options: object) -> HoldOut:
    """A set that has grown by so many facts in each version, of at most `size`."""
    hold_out = HoldOut()
    for version, count in sizes.items():
        facts = random_facts(4 * count, 900, seed=version)[:count]
        generator = np.random.default_rng(version)
        hold_out = hold_out.grown(facts, version, generator, size, **options)
    return hold_out


def test_the_oldest_are_never_washed_out() -> None:
    """A uniform sample would keep 2 of the first 20 facts."""
    kept = grown_by({1: 20, **dict.fromkeys(range(2, 60), 20)}, 120)
    assert len(kept) == 120
    classes = age_class(kept.since, 59)
    counts = dict(zip(*np.unique(classes, return_counts=True), strict=True))
    assert counts.keys() == {0, 1, 2, 3, 4, 5}
    assert min(counts.values()) >= 18
    assert (kept.since <= 28).sum() == counts[5]


def test_a_large_batch_does_not_displace_small_ones() -> None:
    kept = grown_by({1: 8, 2: 900, 3: 5}, 100)
    counts = dict(zip(*np.unique(kept.since, return_counts=True), strict=True))
    assert (counts[1], counts[3]) == (8, 5)
    assert counts[2] == 87


def test_facts_of_touched_entities_have_room() -> None:
    facts, touched = random_facts(4000, 900), np.arange(5)
    named = int(np.isin(facts[:, (0, 2)], touched).any(axis=1).sum())
    kept = HoldOut().grown(facts, 1, np.random.default_rng(0), 200, touched)
    there = int(kept.has_entity(touched).sum())
    assert named > 20
    assert there == min(named, 50) or there >= 50
    usual = HoldOut().grown(facts, 1, np.random.default_rng(0), 200)
    assert usual.has_entity(touched).sum() < there


def test_age_classes_have_names() -> None:
    ages = np.array([0, 1, 2, 3, 6, 7, 14, 15], dtype=np.int32)
    classes = age_class(40 - ages, 40)
    assert classes.tolist() == [0, 1, 1, 2, 2, 3, 3, 4]
    assert [age_label(number) for number in range(4)] == ["0", "1-2", "3-6", "7-14"]


def test_values_stay_with_their_facts() -> None:
    facts = random_facts(40, 30)
    values = np.arange(2.0 * len(facts)).reshape(-1, 2)
    hold_out = HoldOut.unranked(facts, 1).with_values(baseline=values, last=values + 1)
    left = hold_out.without(facts[:5]).grown(
        random_facts(9, 30, 7), 2, np.random.default_rng(0), 12
    )
    old = left.since == 1
    for fact, baseline in zip(left.facts[old], left.baseline[old], strict=True):
        (place,) = np.flatnonzero((facts == fact).all(axis=1))
        assert baseline.tolist() == values[place].tolist()
    assert np.isnan(left.baseline[~old]).all()
    again = HoldOut.from_arrays(left.arrays("x."), "x.")
    for name, array in left.arrays().items():
        assert np.array_equal(array, again.arrays()[name], equal_nan=True)


def test_older_files_have_no_values_and_damaged_ones_are_named() -> None:
    facts = random_facts(4, 9)
    old = HoldOut.from_arrays({"facts": facts, "since": np.ones(4, np.int32)})
    assert old.entities.tolist() == [0] * 4
    assert len(HoldOut.from_arrays(old.arrays(), RETRACTED)) == 0
    with pytest.raises(DamagedFile, match="baseline of shape"):
        HoldOut.from_arrays({**old.arrays(), "baseline": np.zeros((3, 2))})


def test_retracted_facts_are_no_longer_asked() -> None:
    asked = HoldOut().grown(random_facts(6, 9), 1, np.random.default_rng(0), 99)
    left = asked.without(asked.facts[:2])
    assert np.array_equal(left.facts, asked.facts[2:])


def test_candidates_are_all_or_a_sample_with_the_asked() -> None:
    asked = np.array([[70, 0, 99]], dtype=np.int32)
    assert len(sample_candidates(asked, 100, np.random.default_rng(0), 100)) == 100
    few = sample_candidates(asked, 100, np.random.default_rng(0), 10).ids
    assert {70, 99} <= set(few.tolist())
    assert 10 <= len(few) <= 12


def test_drift_is_a_turn_and_not_a_stretch() -> None:
    before = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    assert mean_drift(before, 3 * before) == pytest.approx(0)
    assert mean_drift(before, torch.tensor([[0.0, 5.0], [0.0, 2.0]])) == pytest.approx(0.5)
    assert mean_drift(before[:0], before[:0]) == 0
