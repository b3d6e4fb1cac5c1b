"""Which relation leads from one entity to another: (subject, ?, object)."""

from typing import NamedTuple

import numpy as np

from lkge.models.best import best_first
from lkge.store.contradictions import names_damage
from lkge.store.reader import Reader


class RelationPrediction(NamedTuple):
    """A relation that completes a fact: score, plausibility from 0 to 1, whether the fact is known,
    and whether a known fact of the relation has the object in the same place."""

    relation: str
    score: float
    plausibility: float
    known: bool
    in_range: bool


@names_damage
def predict_relations(
    reader: Reader,
    *,
    subject: str,
    object: str,
    k: int = 10,
    new_only: bool = False,
    in_range: bool = False,
) -> list[RelationPrediction]:
    """The k best relations of (subject, ?, object) by score. Each is judged as `Reader.score` does:
    at the place of the object in the list of (subject, relation, ?)."""
    first, last = map(reader.names.entity_id, (subject, object))
    facts = np.zeros((reader.num_relations, 3), np.int32)
    facts[:, 0], facts[:, 1], facts[:, 2] = first, np.arange(len(facts)) * 2, last
    scores = reader.fact_scores(facts)
    left = np.ones(len(facts), np.bool_)
    if new_only:
        left &= ~reader.answers.contains(facts)
    if in_range:
        left &= reader.judge.is_in_range(facts)
    best = best_first(np.where(left, scores, -np.inf), min(k, int(left.sum())))
    judged = reader.judged_facts(facts[best])
    names = [reader.names.relation_name(2 * int(place)) for place in best]
    columns = (scores[best].tolist(), *(column.tolist() for column in judged))
    return [RelationPrediction(*each) for each in zip(names, *columns, strict=True)]
