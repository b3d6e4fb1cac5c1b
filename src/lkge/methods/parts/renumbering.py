"""A batch on rows of its own: an entity that each query sees anew is as many rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lkge.data.batches import Batch

Ints = NDArray[np.int32]


def renumbered(
    batch: Batch, of_subjects: Ints, of_objects: Ints
) -> tuple[NDArray[np.int64], Batch]:
    """The distinct (entity, query) of a batch, (k, 2), in ascending order, and the batch by their
    numbers. A fact's subject, and what is put in its place, has the query `of_subjects` (B,), its
    object `of_objects` (B,)."""
    subjects, _, objects = batch.facts.astype(np.int64).T
    forward, backward = of_subjects.astype(np.int64), of_objects.astype(np.int64)
    sides = np.where(batch.corrupt_object, backward[:, None], forward[:, None])
    width = int(max(forward.max(), backward.max())) + 1
    keys = np.concatenate(
        [
            subjects * width + forward,
            objects * width + backward,
            (batch.corruptions.astype(np.int64) * width + sides).ravel(),
        ]
    )
    distinct, places = np.unique(keys, return_inverse=True)
    heads, tails, corruptions = np.split(places.astype(np.int32), [len(batch), 2 * len(batch)])
    facts = np.stack([heads, batch.facts[:, 1], tails], axis=1)
    seen = Batch(facts, corruptions.reshape(batch.corruptions.shape), batch.corrupt_object)
    return np.stack([distinct // width, distinct % width], axis=1), seen
