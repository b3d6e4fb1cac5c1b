"""An epoch of batches: every fact once, corruptions from all of E_i on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from lkge.data.batches import Batch, batches, query_batches, retraction_batches, sample_candidates
from lkge.data.snapshots import Facts


def numbered_facts(size: int) -> Facts:
    return np.stack([np.arange(size), np.zeros(size), np.arange(size) + 1], 1).astype(np.int32)


def epoch(
    size: int,
    batch: int,
    negatives: int = 2,
    entities: int = 50,
    seed: int = 0,
    shared_by: int = 1,
) -> list[Batch]:
    generator = np.random.default_rng(seed)
    return list(batches(numbered_facts(size), batch, negatives, entities, generator, shared_by))


@pytest.mark.parametrize(
    ("size", "batch", "sizes"), [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 100, [3]), (0, 4, [])]
)
def test_every_fact_comes_once(size: int, batch: int, sizes: list[int]) -> None:
    made = epoch(size, batch)
    assert [len(part) for part in made] == sizes
    facts = [tuple(fact) for part in made for fact in part.facts.tolist()]
    assert sorted(facts) == [tuple(fact) for fact in numbered_facts(size).tolist()]


def test_the_order_is_shuffled() -> None:
    (whole,) = epoch(100, 100)
    assert whole.facts[:, 0].tolist() != list(range(100))


def test_shapes_and_types_are_those_of_the_kernels() -> None:
    for part in epoch(10, 4, negatives=3):
        assert part.corruptions.shape == part.corrupt_object.shape == (len(part), 3)
        assert part.facts.dtype == part.corruptions.dtype == np.int32
        assert part.corrupt_object.dtype == np.bool_


def test_without_negatives_nothing_is_drawn_but_the_order() -> None:
    generator, twin = np.random.default_rng(5), np.random.default_rng(5)
    parts = list(batches(numbered_facts(10), 4, 0, 50, generator))
    assert [part.corruptions.shape for part in parts] == [(4, 0), (4, 0), (2, 0)]
    assert all(part.corrupt_object.size == 0 for part in parts)
    twin.permutation(10)
    assert generator.random() == twin.random()


def test_every_entity_is_drawn_the_newest_too() -> None:
    (part,) = epoch(500, 500, negatives=10, entities=20)
    counts = np.bincount(part.corruptions.ravel(), minlength=20)
    assert len(counts) == 20
    assert counts.min() > 150
    assert counts.max() < 350


def test_both_sides_are_corrupted_equally_often() -> None:
    """Each corruption for itself: of two, both are on the object side in a quarter of facts."""
    (part,) = epoch(2000, 2000, negatives=2)
    assert part.corrupt_object.mean() == pytest.approx(0.5, abs=0.03)
    assert part.corrupt_object.all(axis=1).mean() == pytest.approx(0.25, abs=0.03)


def test_the_generator_decides() -> None:
    def content(seed: int) -> list[bytes]:
        return [
            array.tobytes()
            for part in epoch(20, 8, seed=seed)
            for array in (part.facts, part.corruptions, part.corrupt_object)
        ]

    assert content(1) == content(1)
    assert content(1) != content(2)


def test_facts_in_a_row_share_corruptions_of_their_objects() -> None:
    made = epoch(25, 10, negatives=8, entities=10_000, shared_by=4)
    groups = [
        {tuple(row) for row in part.corruptions[start : start + 4].tolist()}
        for part in made
        for start in range(0, len(part), 4)
    ]
    assert [len(part) for part in made] == [10, 10, 5]
    assert [len(group) for group in groups] == [1] * (3 + 3 + 2)
    assert len(set.union(*groups)) == len(groups)
    for part in made:
        assert part.shared_by == 4
        assert part.corrupt_object.all()
        assert part.corruptions.shape == part.corrupt_object.shape == (len(part), 8)
        assert part.corruptions.dtype == np.int32
        assert part.corruptions.flags.c_contiguous


def test_a_batch_smaller_than_a_group_is_one() -> None:
    (part,) = epoch(3, 10, entities=10_000, shared_by=2**62)
    assert len(part) == 3
    assert (part.corruptions == part.corruptions[0]).all()


def test_facts_that_share_come_in_the_same_order() -> None:
    alone, shared = epoch(20, 20), epoch(20, 20, shared_by=5)
    assert alone[0].facts.tolist() == shared[0].facts.tolist()
    assert alone[0].shared_by == 1


@pytest.mark.parametrize("shared_by", [1, 4])
def test_a_fact_singly_keeps_its_corruptions_and_shares_them_with_none(shared_by: int) -> None:
    (part,) = epoch(10, 10, negatives=3, shared_by=shared_by)
    single = list(part.singly())
    assert {(len(one), one.shared_by) for one in single} == {(1, 1)}
    for name in ("facts", "corruptions", "corrupt_object"):
        whole = np.concatenate([getattr(one, name) for one in single])
        assert np.array_equal(whole, getattr(part, name))


def test_a_fact_that_no_longer_holds_is_every_corruption_of_another() -> None:
    withdrawn = numbered_facts(10)
    made = list(retraction_batches(withdrawn, 4, 3, 50, np.random.default_rng(0)))
    assert [len(part) for part in made] == [4, 4, 2]
    seen = []
    for part in made:
        assert part.corrupt_object.all()
        assert part.corruptions.flags.c_contiguous
        assert part.corruptions.dtype == part.facts.dtype == np.int32
        for (subject, relation, stand_in), objects in zip(
            part.facts.tolist(), part.corruptions.tolist(), strict=True
        ):
            assert 0 <= stand_in < 50
            assert len(objects) == 3
            seen += [(subject, relation, *set(objects))]
    assert sorted(seen) == [tuple(fact) for fact in withdrawn.tolist()]


def asked_facts(answers: list[int]) -> Facts:
    """Question q, of subject q // 2 and relation q % 2, with answers[q] answers."""
    questions = np.repeat(np.arange(len(answers)), answers)
    objects = np.concatenate([np.arange(count) for count in answers])
    return np.stack([questions // 2, questions % 2, objects], 1).astype(np.int32)


@pytest.mark.parametrize("size", [1, 4, 7, 1000])
def test_facts_that_ask_one_question_come_together(size: int) -> None:
    answers = [1, 3, 9, 2, 1, 1, 4, 6, 1, 2]
    facts = asked_facts(answers)
    shuffled = np.random.default_rng(1).permutation(facts)
    parts = [part.facts for part in query_batches(shuffled, size, np.random.default_rng(0))]
    questions = [{(s, r) for s, r, _ in part.tolist()} for part in parts]
    assert sum(map(len, questions)) == len(answers)
    assert sorted(map(tuple, np.concatenate(parts).tolist())) == list(map(tuple, facts.tolist()))
    largest = max(answers)
    assert all(0 < len(part) < size + largest for part in parts)
    assert all(len(part) > size - largest for part in parts[:-1])


def test_questions_come_in_an_order_of_their_own() -> None:
    facts = asked_facts([1] * 50)
    orders = {
        tuple(next(query_batches(facts, 50, np.random.default_rng(seed))).facts[:, 0].tolist())
        for seed in (0, 1, 1)
    }
    assert len(orders) == 2


def test_no_facts_are_no_batch() -> None:
    assert not list(query_batches(asked_facts([0]), 4, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("entities", "share", "drawn"), [(9000, 0.15, 1350), (9000, 0.5, 4500), (5001, 0.9, 4501)]
)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_a_sample_is_a_share_of_all_and_who_is_in_the_facts(
    entities: int, share: float, drawn: int, power: float
) -> None:
    facts = asked_facts([1, 3, 2]) + np.array([7, 0, 0], np.int32)
    generator = np.random.default_rng(1)
    sample = sample_candidates(facts, entities, share, generator, power, all_below=5000)
    assert sample is not None
    assert drawn <= len(sample.entities) <= drawn + 5
    assert (np.diff(sample.entities) > 0).all()
    own = np.isin(sample.entities, [0, 1, 2, 7, 8])
    assert own.sum() == 5
    assert (sample.importance[own] == 1).all()
    others = (entities - 5) / (len(sample.entities) - 5)
    assert sample.importance[~own] == pytest.approx(others**power)


@pytest.mark.parametrize(("entities", "share"), [(5000, 0.5), (9000, 1.0)])
def test_of_few_entities_and_where_all_are_wanted_there_is_no_sample(
    entities: int, share: float
) -> None:
    facts, generator = asked_facts([2]), np.random.default_rng(1)
    assert sample_candidates(facts, entities, share, generator, all_below=5000) is None


def test_every_batch_of_questions_has_a_sample_of_its_own() -> None:
    facts = asked_facts([1, 3, 9, 2, 1, 1])
    parts = list(query_batches(facts, 6, np.random.default_rng(2), 6000, 0.3))
    samples = [part.sample for part in parts if part.sample is not None]
    assert len(samples) == len(parts) > 1
    assert len({tuple(sample.entities.tolist()) for sample in samples}) == len(samples)
    for part, sample in zip(parts, samples, strict=True):
        assert np.isin(part.facts[:, (0, 2)], sample.entities).all()


def test_a_sample_has_at_most_so_many_entities() -> None:
    facts = asked_facts([1, 3, 2])
    for share in (1.0, 0.9):
        generator = np.random.default_rng(1)
        sample = sample_candidates(facts, 9000, share, generator, all_below=5000, most=300)
        assert sample is not None
        assert 300 <= len(sample.entities) <= 305
        assert sample.importance.sum() == pytest.approx(9000)


def test_samples_estimate_a_sum_over_all_entities() -> None:
    """Σ importance · exp score over a sample has the expectation Σ exp score over all entities, and
    so for the gradient of each."""
    facts, generator = asked_facts([1, 3, 2]), np.random.default_rng(1)
    values = np.exp(generator.standard_normal(300))
    estimates = []
    for _ in range(2000):
        sample = sample_candidates(facts, 300, 1.0, generator, most=20)
        assert sample is not None
        estimates.append(sample.importance @ values[sample.entities])
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - values.sum()) < 4 * error
