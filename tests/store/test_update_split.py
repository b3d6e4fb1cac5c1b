from __future__ import annotations

import numpy as np
import pytest

from lkge.data.formats import Triple
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames
from lkge.data.snapshots import Facts
from lkge.store.inbox import FactBatch
from lkge.store.update_split import UpdateSplit, held_out, split_batch

NAMES = MappedNames.of(["a", "b", "c"], ["knows"])
KNOWN = np.array([[0, 0, 1], [1, 0, 2]], dtype=np.int32)


def batch_of(
    added: list[Triple], retracted: list[Triple] | None = None, valid: float = 0.0
) -> FactBatch:
    return FactBatch(1, added, retracted or [], valid, "test", "then")


def split(batch: FactBatch, seed: int = 0) -> UpdateSplit:
    answers = KnownFacts.build([KNOWN])
    return split_batch(batch, 3, NAMES, answers, np.random.default_rng(seed), 5)


def listed(facts: Facts) -> list[list[int]]:
    return sorted(facts.tolist())


def test_new_names_come_behind_the_old_ones_as_they_appear() -> None:
    made = split(batch_of([("z", "likes", "a"), ("b", "knows", "y")]))
    assert list(made.names.entity_table) == ["a", "b", "c", "z", "y"]
    assert list(made.names.relation_table) == ["knows", "likes"]
    assert listed(made.train) == [[1, 0, 4], [3, 2, 0]]
    assert made.warnings == ()


def test_what_is_known_or_given_twice_is_not_made_again() -> None:
    new = ("a", "knows", "c")
    made = split(batch_of([("a", "knows", "b"), new, new]))
    assert listed(made.new_facts) == [[0, 0, 2]]
    assert made.warnings == ("2 of the added facts were known already",)


def test_only_what_is_known_can_be_retracted() -> None:
    gone: list[Triple] = [("a", "knows", "b"), ("c", "knows", "a"), ("nobody", "knows", "a")]
    made = split(batch_of([], gone))
    assert listed(made.retracted) == [[0, 0, 1]]
    assert made.names.num_entities == 3
    assert made.warnings == ("2 of the retracted facts were not known",)


@pytest.mark.parametrize("valid", [0.0, 0.1, 0.5])
def test_the_parts_are_all_of_it_and_share_nothing(valid: float) -> None:
    people = [f"p{k}" for k in range(20)]
    facts = [(one, "knows", other) for one in people for other in people if one != other]
    made = split(batch_of(facts, valid=valid))
    held = round(valid * len(facts))
    assert len(made.valid) + len(made.hold_out) == held
    assert 0 <= len(made.valid) - len(made.hold_out) <= 1
    assert len(np.unique(made.new_facts, axis=0)) == len(facts)


@pytest.mark.parametrize("seed", range(20))
def test_every_new_name_keeps_a_fact_to_learn_from(seed: int) -> None:
    generator = np.random.default_rng(seed)
    columns = [generator.integers(0, 12, 40), 2 * generator.integers(0, 4, 40)]
    facts = np.unique(np.stack([*columns, generator.integers(0, 12, 40)], axis=1), axis=0)
    held = held_out(facts.astype(np.int32), 0.9, NAMES, generator)
    left = np.delete(facts, held, axis=0)
    new_entities = set(facts[:, (0, 2)].ravel().tolist()) - {0, 1, 2}
    assert new_entities <= set(left[:, (0, 2)].ravel().tolist())
    assert set(facts[:, 1].tolist()) - {0} <= set(left[:, 1].tolist())
    assert len(set(held.tolist())) == len(held) > 0


@pytest.mark.parametrize(
    ("held", "valid"), [(0, 0), (1, 0), (8, 0), (9, 5), (10, 5), (11, 6), (40, 20)]
)
def test_few_held_out_facts_all_go_to_the_hold_out_set(held: int, valid: int) -> None:
    people = [f"p{k}" for k in range(20)]
    facts = [(one, "knows", other) for one in people for other in people if one != other]
    made = split(batch_of(facts, valid=held / len(facts)))
    assert (len(made.valid), len(made.hold_out)) == (valid, held - valid)
