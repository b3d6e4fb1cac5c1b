"""Which relation implies which, counted against sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.backends.made import made_facts
from tests.methods.plain_encoders import discount, implied

from lkge.data.snapshots import no_facts, with_inverses
from lkge.methods.lan import LEAST, discounts, implications
from lkge.methods.neighbours import Neighbourhoods

FACTS = made_facts(3, 40, 12, 4)
FACTS[:, 1] = np.where(FACTS[:, 1] == 4, 0, FACTS[:, 1])
EDGES = with_inverses(FACTS)


def test_p_implies_q_as_often_as_entities_with_p_have_q() -> None:
    implies = implications(EDGES, 8)
    for p in range(8):
        for q in range(8):
            assert float(implies[p, q]) == pytest.approx(implied(p, q, EDGES.tolist()))
    used = [0, 1, 2, 3, 6, 7]
    assert implies[used, used].tolist() == [1] * 6
    assert implies[4:6].count_nonzero() == implies[:, 4:6].count_nonzero() == 0
    assert 0 < float(implies[0, 2]) < 1
    assert implies[0, 2] != implies[2, 0]


def test_a_fact_that_comes_twice_counts_once() -> None:
    assert torch.equal(implications(np.concatenate([EDGES, EDGES]), 8), implications(EDGES, 8))


def test_nothing_follows_from_no_facts() -> None:
    assert implications(no_facts(), 4).count_nonzero() == 0
    assert len(discounts(Neighbourhoods.none(3), torch.zeros(4, 4))) == 0


def test_a_neighbour_is_discounted_by_what_implies_it_most() -> None:
    implies = implications(EDGES[::9], 8)
    near = Neighbourhoods.sampled(EDGES, 13, 5, np.random.default_rng(0))
    found = discounts(near, implies)
    assert found.min() == pytest.approx(LEAST)
    for entity in range(13):
        items = range(int(near.starts[entity]), int(near.starts[entity + 1]))
        relations = {int(near.relations[item]) for item in items}
        for item in items:
            expected = discount(int(near.relations[item]), relations, implies.tolist(), LEAST)
            assert float(found[item]) == pytest.approx(expected)
