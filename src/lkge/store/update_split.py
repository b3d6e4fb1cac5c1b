"""A batch by id, split into training, validation, hold-out and retracted facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.fact_list import FactList, is_first
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, NameTable
from lkge.data.snapshots import Facts
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
    new, gone = FactList.of(batch.added), FactList.of(batch.retracted)
    grown = _with_new(names, new)
    added = ids_of(new, grown)
    fresh = added[~answers.contains(added)]
    retracted = ids_of(gone, names)
    retracted = retracted[answers.contains(retracted)]
    held = held_out(fresh, batch.valid, names, generator)
    known, unknown = len(new) - len(fresh), len(gone) - len(retracted)
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
    entity_of, entities = _left(facts[:, (0, 2)], names.num_entities)
    relation_of, relations = _left(facts[:, 1], 2 * names.num_relations)
    held: list[int] = []
    for place in generator.permutation(len(facts)).tolist():
        if len(held) == wanted:
            break
        (subject, object_), relation = entity_of[place], relation_of[place]
        entities[subject] -= 1
        entities[object_] -= 1
        relations[relation] -= 1
        if entities[subject] > 0 and entities[object_] > 0 and relations[relation] > 0:
            held.append(place)
        else:
            entities[subject] += 1
            entities[object_] += 1
            relations[relation] += 1
    return np.array(held, dtype=np.int64)


def _left(ids: NDArray[np.int32], known: int) -> tuple[Any, list[int]]:
    """The ids as numbers from 0 without a gap, and for each number how many facts may have it; an
    id below `known` as many as it likes."""
    distinct, numbers, counts = np.unique(ids, return_inverse=True, return_counts=True)
    left = np.where(distinct < known, counts + ids.size, counts)
    return numbers.reshape(ids.shape), left.tolist()


def _with_new(names: MappedNames, facts: FactList) -> MappedNames:
    """`names` and the new names of `facts`, in order of appearance."""
    return names.appended(
        unknown(facts.entities, names.entity_table),
        unknown(facts.relations, names.relation_table),
    )


def unknown(given: Sequence[str], table: NameTable) -> list[str]:
    """The names that a table does not have."""
    return [name for name, at in zip(given, table.find_all(given).tolist(), strict=True) if at < 0]


def ids_of(facts: FactList, names: MappedNames) -> Facts:
    """Facts by id, each once; those with an unknown name are left out."""
    entities = names.entity_table.find_all(facts.entities)
    relations = names.relation_table.find_all(facts.relations)
    ids = facts.numbered(entities, 2 * relations)
    ids = ids[(ids >= 0).all(axis=1)]
    return ids[is_first(ids)]
