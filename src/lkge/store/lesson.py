"""An accepted batch by id: what to train on, select by, hold out for the exam, and withdraw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lkge.data.formats import Triple
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, NameTable
from lkge.data.snapshots import Facts, no_facts
from lkge.store.inbox import FactBatch

FEWEST_TO_SELECT_BY = 5


@dataclass(frozen=True)
class Lesson:
    """New facts in three parts, and those that no longer hold; `names` knows what is new. The
    `index` counts the lessons of the graph from 0."""

    index: int
    train: Facts
    select: Facts
    exam: Facts
    retracted: Facts
    names: MappedNames
    warnings: tuple[str, ...]

    @property
    def new_facts(self) -> Facts:
        """All that the batch brought and was not known."""
        return np.concatenate([self.train, self.select, self.exam])


def lesson_of(
    batch: FactBatch,
    index: int,
    names: MappedNames,
    answers: KnownFacts,
    generator: np.random.Generator,
) -> Lesson:
    """The lesson of a batch in a graph with these names and known answers."""
    grown = _with_new(names, batch.added)
    added = _ids(batch.added, grown)
    fresh = added[~answers.contains(added)]
    named = [fact for fact in batch.retracted if _is_named(fact, names)]
    retracted = _ids(named, names)
    retracted = retracted[answers.contains(retracted)]
    held = held_out(fresh, batch.valid, names, generator)
    half = _to_select_by(len(held))
    return Lesson(
        index=index,
        train=np.delete(fresh, held, axis=0),
        select=fresh[np.sort(held[:half])],
        exam=fresh[np.sort(held[half:])],
        retracted=retracted,
        names=grown,
        warnings=tuple(
            _warnings(len(batch.added) - len(fresh), len(batch.retracted) - len(retracted))
        ),
    )


def _to_select_by(held: int) -> int:
    """How many of the held-out facts select the best epoch: one half, but no few, whose MRR would
    be chance; the others are for the exam."""
    half = held - held // 2
    return half if half >= FEWEST_TO_SELECT_BY else 0


def held_out(
    facts: Facts, share: float, names: MappedNames, generator: np.random.Generator
) -> NDArray[np.int64]:
    """The places of a random share of the facts, such that every entity and relation that `names`
    does not know yet still has a fact to learn from."""
    wanted = round(share * len(facts))
    entities = np.bincount(facts[:, (0, 2)].ravel(), minlength=1)
    relations = np.bincount(facts[:, 1], minlength=1)
    entities[: names.num_entities] += len(facts)
    relations[: 2 * names.num_relations] += len(facts)
    held: list[int] = []
    for place in generator.permutation(len(facts)):
        if len(held) == wanted:
            break
        subject, relation, object_ = facts[place]
        np.subtract.at(entities, [subject, object_], 1)
        relations[relation] -= 1
        if entities[subject] > 0 and entities[object_] > 0 and relations[relation] > 0:
            held.append(int(place))
        else:
            np.add.at(entities, [subject, object_], 1)
            relations[relation] += 1
    return np.array(held, dtype=np.int64)


def _with_new(names: MappedNames, facts: Sequence[Triple]) -> MappedNames:
    """Names with those that are new in `facts`, in order of appearance."""
    entities = list(dict.fromkeys(name for s, _, o in facts for name in (s, o)))
    relations = list(dict.fromkeys(relation for _, relation, _ in facts))
    return names.appended(
        _unknown(entities, names.entity_table), _unknown(relations, names.relation_table)
    )


def _unknown(given: Sequence[str], table: NameTable) -> list[str]:
    return [name for name, at in zip(given, table.find_all(given), strict=True) if at < 0]


def _ids(facts: Sequence[Triple], names: MappedNames) -> Facts:
    """Facts by id, each once; all names exist."""
    if not facts:
        return no_facts()
    subjects, relations, objects = (list(column) for column in zip(*facts, strict=True))
    ids = np.stack(
        [
            names.entity_table.find_all(subjects),
            2 * names.relation_table.find_all(relations),
            names.entity_table.find_all(objects),
        ],
        axis=1,
    ).astype(np.int32)
    _, first = np.unique(ids, axis=0, return_index=True)
    return ids[np.sort(first)]


def _is_named(fact: Triple, names: MappedNames) -> bool:
    subject, relation, object_ = fact
    entities, relations = names.entity_table, names.relation_table
    return (
        entities.find(subject) is not None
        and relations.find(relation) is not None
        and entities.find(object_) is not None
    )


def _warnings(known: int, unknown: int) -> Iterable[str]:
    if known:
        yield f"{known} of the added facts were known already"
    if unknown:
        yield f"{unknown} of the retracted facts were not known"
