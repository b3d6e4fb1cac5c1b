"""How many facts a row has."""

from __future__ import annotations

import torch
from tests.methods.hand_made import FIRST, NEW, PAST, SECOND, as_facts

from lkge.data.snapshots import no_facts
from lkge.methods.counts import fact_counts, nothing_new, padded
from lkge.models.parameters import Parameters

NO_COUNTS = Parameters(torch.zeros(0), torch.zeros(0))


def test_a_fact_counts_for_both_entities_and_both_directions() -> None:
    counts = fact_counts(as_facts([(0, 2, 3)]), FIRST)
    assert counts.entity.tolist() == [1, 0, 0, 1, 0]
    assert counts.relation.tolist() == [0, 0, 1, 1]


def test_there_is_a_count_for_every_row_of_the_snapshot() -> None:
    counts = fact_counts(no_facts(), SECOND)
    assert counts.entity.tolist() == [0] * 10
    assert counts.relation.tolist() == [0] * 6
    assert counts.entity.dtype == torch.float32


def test_padding_adds_zeros_behind() -> None:
    old = fact_counts(as_facts(PAST), FIRST)
    wide = padded(old, fact_counts(as_facts(PAST), SECOND))
    assert wide.entity.tolist() == old.entity.tolist() + [0] * 5
    assert wide.relation.tolist() == old.relation.tolist() + [0] * 2
    assert padded(NO_COUNTS, old).entity.tolist() == [0] * 5


def test_nothing_is_new_where_both_entities_and_the_relation_have_facts() -> None:
    counts = fact_counts(as_facts(PAST), FIRST)
    assert nothing_new(as_facts(PAST), counts) == 1
    assert nothing_new(as_facts(NEW), counts) == 1 / 7  # (1, 0, 0)
    assert nothing_new(as_facts([(0, 0, 4), (4, 0, 0), (0, 0, 1)]), counts) == 1 / 3
    assert nothing_new(as_facts(PAST), NO_COUNTS) == 0
    assert nothing_new(no_facts(), counts) == 0
