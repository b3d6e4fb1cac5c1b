"""A batch by the numbers of what it asks."""

from __future__ import annotations

import numpy as np
from tests.backends.made import batch_of

from lkge.methods.inductive import renumbered


def test_a_batch_by_the_numbers_of_what_is_asked() -> None:
    batch = batch_of(
        ((7, 2, 3), [(4, True), (7, False)]),
        ((3, 3, 7), [(3, True), (4, False)]),
    )
    asked, seen = renumbered(batch, batch.facts[:, 1], batch.facts[:, 1] ^ 1)
    named = [tuple(row) for row in asked.tolist()]
    assert len(set(named)) == len(named)
    assert [(named[s], r, named[o]) for s, r, o in seen.facts.tolist()] == [
        ((7, 2), 2, (3, 3)),
        ((3, 3), 3, (7, 2)),
    ]
    assert [[named[c] for c in row] for row in seen.corruptions.tolist()] == [
        [(4, 3), (7, 2)],
        [(3, 2), (4, 3)],
    ]
    assert seen.corrupt_object is batch.corrupt_object
    assert seen.facts.dtype == seen.corruptions.dtype == np.int32

    asked, seen = renumbered(batch, np.zeros(2, np.int32), np.zeros(2, np.int32))
    assert asked.tolist() == [[3, 0], [4, 0], [7, 0]]
    assert seen.facts.tolist() == [[2, 2, 0], [0, 3, 2]]
    assert seen.corruptions.tolist() == [[1, 2], [0, 1]]
