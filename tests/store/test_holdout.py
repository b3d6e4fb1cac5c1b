"""The hold-out set is a fair sample, and its ranks are those of a plain count."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backends.made import NUMBA

from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, with_inverses
from lkge.models.predictor import TablePredictor
from lkge.models.scores import TransE
from lkge.store.holdout import (
    HoldOut,
    mean_by_version,
    mean_drift,
    reciprocal_ranks,
    sample_candidates,
)
from lkge.store.subgraph import Subgraph


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


def test_retracted_facts_are_no_longer_asked() -> None:
    asked = HoldOut().grown(random_facts(6, 9), 1, np.random.default_rng(0), 99)
    left = asked.without(asked.facts[:2])
    assert np.array_equal(left.facts, asked.facts[2:])


def test_ranks_are_those_of_a_plain_count() -> None:
    generator = np.random.default_rng(0)
    entity = torch.from_numpy(generator.normal(size=(30, 6)).astype(np.float32))
    relation = torch.from_numpy(generator.normal(size=(4, 6)).astype(np.float32))
    predictor = TablePredictor(entity, relation, TransE(), backend=NUMBA)
    known = random_facts(60, 30)
    asked = known[::5]
    rows = Subgraph(np.unique(np.append(asked[:, (0, 2)], np.arange(0, 30, 2))).astype(np.int64), 0)
    local = TablePredictor(entity[rows.ids], relation, TransE(), backend=NUMBA)
    got = reciprocal_ranks(local, rows, asked, KnownFacts.build([known]))
    answers = {tuple(fact) for fact in with_inverses(known).tolist()}
    for place, (s, r, o) in enumerate(asked.tolist()):
        expected = []
        for subject, relation_id, target in ((s, r, o), (o, r ^ 1, s)):
            scores = predictor.candidate_scores(subject, relation_id)
            rivals = [
                e
                for e in rows.ids.tolist()
                if e != target and (subject, relation_id, e) not in answers
            ]
            expected.append(1 / (1 + sum(scores[e] > scores[target] for e in rivals)))
        assert got[place] == pytest.approx(np.mean(expected))


def test_candidates_are_all_or_a_sample_with_the_asked() -> None:
    asked = np.array([[70, 0, 99]], dtype=np.int32)
    assert len(sample_candidates(asked, 100, np.random.default_rng(0), 100)) == 100
    few = sample_candidates(asked, 100, np.random.default_rng(0), 10).ids
    assert {70, 99} <= set(few.tolist())
    assert 10 <= len(few) <= 12


def test_a_row_of_the_matrix() -> None:
    asked = HoldOut(random_facts(4, 90), np.array([1, 1, 3, 3], dtype=np.int32))
    assert mean_by_version(asked, np.array([1.0, 0.5, 0.25, 0.25])) == {"1": 0.75, "3": 0.25}


def test_drift_is_a_turn_and_not_a_stretch() -> None:
    before = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    assert mean_drift(before, 3 * before) == pytest.approx(0)
    assert mean_drift(before, torch.tensor([[0.0, 5.0], [0.0, 2.0]])) == pytest.approx(0.5)
    assert mean_drift(before[:0], before[:0]) == 0
