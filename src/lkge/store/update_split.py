"""A batch by id, split into training, validation, hold-out and retracted facts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lkge.data.formats import Triple
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, NameTable
from lkge.data.snapshots import Facts, no_facts
from lkge.store.inbox import FactBatch


@dataclass(frozen=True)
class UpdateSplit:
    """New facts in three parts, each (k, 3), and the retracted ones. `names` has the new names;
    `index` counts the updates of the graph from 0."""

    index: int
    train: Facts
    valid: Facts
    hold_out: Facts
    retracted: Facts
    names: MappedNames
    warnings: tuple[str, ...]

    @property
    def new_facts(self) -> Facts:
        """All facts of the batch that were not known."""
        return np.concatenate([self.train, self.valid, self.hold_out])

    @property
    def is_empty(self) -> bool:
        """Whether no fact comes or goes."""
        return not any(map(len, (self.train, self.valid, self.hold_out, self.retracted)))


def split_batch(
    batch: FactBatch,
    index: int,
    names: MappedNames,
    answers: KnownFacts,
    generator: np.random.Generator,
    min_validation_facts: int,
) -> UpdateSplit:
    """Split a batch in a graph with these names and known answers. Of the held-out facts one half
    is for validation, unless that is fewer than `min_validation_facts`: then none is."""
    grown = _with_new(names, batch.added)
    added = _ids(batch.added, grown)
    fresh = added[~answers.contains(added)]
    retracted = _ids(batch.retracted, names)
    retracted = retracted[answers.contains(retracted)]
    held = held_out(fresh, batch.valid, names, generator)
    known, unknown = len(batch.added) - len(fresh), len(batch.retracted) - len(retracted)
    half = len(held) - len(held) // 2
    half = half if half >= min_validation_facts else 0
    return UpdateSplit(
        index=index,
        train=np.delete(fresh, held, axis=0),
        valid=fresh[np.sort(held[:half])],
        hold_out=fresh[np.sort(held[half:])],
        retracted=retracted,
        names=grown,
        warnings=(
            *([f"{known} of the added facts were known already"] if known else []),
            *([f"{unknown} of the retracted facts were not known"] if unknown else []),
        ),
    )


def held_out(
    facts: Facts, share: float, names: MappedNames, generator: np.random.Generator
) -> NDArray[np.int64]:
    """The positions of a random share of the facts. Every entity and relation that is not in
    `names` keeps at least one training fact."""
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
    """`names` and the new names of `facts`, in order of appearance."""
    entities = list(dict.fromkeys(name for s, _, o in facts for name in (s, o)))
    relations = list(dict.fromkeys(relation for _, relation, _ in facts))
    return names.appended(
        _unknown(entities, names.entity_table), _unknown(relations, names.relation_table)
    )


def _unknown(given: Sequence[str], table: NameTable) -> list[str]:
    return [name for name, at in zip(given, table.find_all(given), strict=True) if at < 0]


def _ids(facts: Sequence[Triple], names: MappedNames) -> Facts:
    """Facts by id, each once; those with an unknown name are left out."""
    if not facts:
        return no_facts()
    subjects, relations, objects = zip(*facts, strict=True)
    entity, relation = names.entity_table.find_all, names.relation_table.find_all
    columns = [entity(subjects), 2 * relation(relations), entity(objects)]
    ids = np.stack(columns, axis=1).astype(np.int32)
    ids = ids[(ids >= 0).all(axis=1)]
    _, first = np.unique(ids, axis=0, return_index=True)
    return ids[np.sort(first)]
