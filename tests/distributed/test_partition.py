"""Shards, pairs and rounds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from lkge.data.batches import sample_candidates
from lkge.distributed.partition import Partition

SIZES = [37, 90, 91]


@pytest.mark.parametrize("shards", [2, 4, 10])
def test_every_pair_is_trained_once_and_no_shard_twice_in_a_round(shards: int) -> None:
    rounds = Partition.of(shards, SIZES, seed=0).rounds
    assert sorted(pair for turn in rounds for pair in turn) == list(combinations(range(shards), 2))
    for turn in rounds:
        assert sorted(shard for pair in turn for shard in pair) == list(range(shards))


@pytest.mark.parametrize("shards", [2, 4, 10])
def test_rows_of_a_snapshot_stand_before_those_of_the_next(shards: int) -> None:
    partition = Partition.of(shards, SIZES, seed=0)
    for entities in SIZES:
        rows = [partition.rows(shard, entities) for shard in range(shards)]
        assert sum(rows) == entities
        assert max(rows) - min(rows) <= 1
        for shard in range(shards):
            members = partition.members(shard, entities)
            assert (members < entities).all()
            assert (partition.shard(members) == shard).all()
            assert partition.row(members).tolist() == list(range(rows[shard]))


def test_every_fact_is_in_one_pair_and_pairs_are_of_one_size() -> None:
    generator = np.random.default_rng(0)
    facts = generator.integers(0, SIZES[-1], (20_000, 3), dtype=np.int32)
    partition = Partition.of(6, SIZES, seed=0)
    for epoch in range(2):
        parts = list(partition.by_pair(facts, epoch))
        for turn, of_pairs in zip(partition.rounds, parts, strict=True):
            for pair, part in zip(turn, of_pairs, strict=True):
                assert np.isin(partition.shard(part[:, (0, 2)]), pair).all()
                assert len(part) == pytest.approx(len(facts) / 15, rel=0.15)
        found = np.concatenate([part for of_pairs in parts for part in of_pairs])
        assert np.array_equal(np.sort(found, axis=0), np.sort(facts, axis=0))


def test_another_deal_is_another_partition_and_the_same_deal_the_same() -> None:
    first, again, other = (Partition.of(4, SIZES, 1, (0, epoch)) for epoch in (1, 1, 2))
    assert np.array_equal(first.places, again.places)
    assert not np.array_equal(first.places, other.places)


def test_candidates_of_two_shards_stand_for_all_entities() -> None:
    facts, generator = np.array([[0, 0, 1]], dtype=np.int32), np.random.default_rng(0)
    for share, most in ((0.3, 0), (1.0, 0), (0.9, 20)):
        sample = sample_candidates(facts, 50, share, generator, most=most, represented=200)
        assert sample is not None
        drawn = len(sample.entities) - 2
        assert drawn <= (most or 48)
        assert sample.importance.sum() == pytest.approx(200)
        assert sample.importance[:2].tolist() == [1, 1]
    assert sample_candidates(facts, 50, 1.0, generator, represented=50) is None
