"""Samples of known facts: of all, of entities, of relations; never what is excluded."""

import numpy as np
import pytest

from lkge.data.history import BYTES_PER_FACT, NO_HISTORY, History
from lkge.data.known_facts import KnownFacts
from lkge.data.snapshots import Facts, among


def made_facts(count: int = 400, entities: int = 50, relations: int = 4) -> Facts:
    generator = np.random.default_rng(3)
    columns = [generator.integers(0, high, count) for high in (entities, relations, entities)]
    columns[1] *= 2
    return np.unique(np.stack(columns, axis=1).astype(np.int32), axis=0)


FACTS = made_facts()
EXCLUDED = FACTS[::7]
HISTORY = History(KnownFacts.build([FACTS]), EXCLUDED)
ALLOWED = FACTS[~among(FACTS, EXCLUDED)]


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_all_are_the_facts_without_the_excluded_ones_and_without_inverses() -> None:
    assert np.array_equal(HISTORY.all(), ALLOWED)


def test_a_sample_has_only_known_facts_each_once() -> None:
    sample = HISTORY.sample(100, rng())
    assert 50 < len(sample) <= 100
    assert among(sample, ALLOWED).all()
    assert len(np.unique(sample, axis=0)) == len(sample)
    assert np.array_equal(sample, HISTORY.sample(100, rng())), "the same numbers, the same sample"


def test_every_fact_is_drawn_about_as_often() -> None:
    generator, counts = rng(), np.zeros(len(ALLOWED))
    for _ in range(400):
        counts += among(ALLOWED, HISTORY.sample(40, generator))
    assert counts.min() > 0.5 * counts.mean()
    assert counts.max() < 1.6 * counts.mean()


def test_facts_of_entities_are_theirs_and_all_of_them_where_they_are_few() -> None:
    of_two = HISTORY.of_entities(np.array([3, 8]), most=1000, generator=rng())
    named = np.isin(ALLOWED[:, (0, 2)], [3, 8]).any(axis=1)
    assert np.array_equal(of_two, ALLOWED[named])
    few = HISTORY.of_entities(np.array([3]), most=2, generator=rng())
    assert 0 < len(few) <= 2
    assert np.isin(few[:, (0, 2)], [3]).any(axis=1).all()


def test_facts_of_relations_are_theirs() -> None:
    found = HISTORY.of_relations(np.array([4]), most=30, generator=rng())
    assert 0 < len(found) <= 30
    assert set(found[:, 1]) == {4}
    assert among(found, ALLOWED).all()


@pytest.mark.parametrize("entity", [99, 1_000_000])
def test_an_unknown_entity_has_no_facts(entity: int) -> None:
    assert not len(HISTORY.of_entities(np.array([entity]), most=5, generator=rng()))


def test_no_history_is_empty() -> None:
    assert (len(NO_HISTORY), NO_HISTORY.nbytes) == (0, 0)
    assert NO_HISTORY.sample(5, rng()).shape == NO_HISTORY.all().shape == (0, 3)


def test_its_size_is_that_of_all_facts_even_if_it_has_a_sample() -> None:
    assert HISTORY.nbytes == BYTES_PER_FACT * len(FACTS)
    assert len(History(KnownFacts.build([FACTS[:10]]), total=len(FACTS))) == len(FACTS)
