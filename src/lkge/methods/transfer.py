"""Embedding transfer, Eqs. (8) and (9): a new row starts where its facts with old rows put it.

    e = mean over (e, r, o) with old r and o of f_sub(r_{i-1}, o_{i-1}),
    r = mean over (s, r, o) with old s and o of f_rel(s_{i-1}, o_{i-1}).

A new row without such a fact keeps its random value.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lkge.data.snapshots import Facts, with_inverses
from lkge.models.parameters import Parameters, index
from lkge.models.scores import Score


def transfer(score: Score, facts: Facts, tables: Parameters, old: Parameters) -> Parameters:
    """`tables`, grown from `old`, with its new rows set from the old rows around them."""
    edges = index(with_inverses(facts), tables.device)
    subjects, relations, objects = edges.T
    old_subject, old_object = subjects < len(old.entity), objects < len(old.entity)
    old_relation = relations < len(old.relation)
    for_entities = ~old_subject & old_relation & old_object
    for_relations = old_subject & ~old_relation & old_object
    return Parameters(
        _with_means(
            tables.entity,
            subjects[for_entities],
            score.decompose(
                old.relation[relations[for_entities]], old.entity[objects[for_entities]]
            ),
        ),
        _with_means(
            tables.relation,
            relations[for_relations],
            score.relate(old.entity[subjects[for_relations]], old.entity[objects[for_relations]]),
        ),
    )


def _with_means(table: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """The table, each row among `rows` replaced by the mean of its values."""
    members, places, counts = torch.unique(rows, return_inverse=True, return_counts=True)
    sums = table.new_zeros(len(members), table.shape[1]).index_add(0, places, values)
    return table.index_copy(0, members, sums / counts[:, None])
