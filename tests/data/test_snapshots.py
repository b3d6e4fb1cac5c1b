"""Facts as arrays."""

from __future__ import annotations

import numpy as np

from lkge.data.snapshots import facts_per_entity, no_facts, with_inverses


def test_entities_without_facts_do_not_count_among_those_that_have_some() -> None:
    star = np.array([[0, 0, 1], [0, 0, 2], [0, 2, 7]], dtype=np.int32)
    assert facts_per_entity(with_inverses(star)) == 6 / 4
    assert facts_per_entity(no_facts()) == 1
