"""Names and ids of entities and relations. A vocabulary only appends: an id, once given, stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from lkge.data.spelling import likely_spellings
from lkge.errors import DataError, UnknownName

INVERSE = "⁻¹"
"""The mark behind a relation's name that means its inverse."""


class Names(Protocol):
    """Name ↔ id for those who only ask. Entities are numbered 0, 1, 2, …; the k-th relation is 2k,
    its inverse 2k + 1."""

    @property
    def num_entities(self) -> int:
        """How many entities there are."""
        ...

    @property
    def num_relations(self) -> int:
        """How many forward relations there are; with inverses there are twice as many ids."""
        ...

    def entity_id(self, name: str) -> int:
        """The id of an entity that exists."""
        ...

    def relation_id(self, name: str) -> int:
        """The id of a relation that exists: even for `name`, odd for `name⁻¹`."""
        ...

    def entity_name(self, entity: int) -> str:
        """The name of an entity id."""
        ...

    def relation_name(self, relation: int) -> str:
        """The name of a relation id; an odd id has the mark of the inverse behind it."""
        ...


class Vocabulary:
    """`Names` in memory, to which more can be added."""

    def __init__(self, entities: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        self._entities: list[str] = []
        self._relations: list[str] = []
        self._entity_ids: dict[str, int] = {}
        self._relation_ids: dict[str, int] = {}
        self.add_entities(entities)
        self.add_relations(relations)

    @property
    def entities(self) -> Sequence[str]:
        """All entity names; the place is the id."""
        return self._entities

    @property
    def relations(self) -> Sequence[str]:
        """All forward relation names; the place is half the id."""
        return self._relations

    @property
    def num_entities(self) -> int:
        """See `Names`."""
        return len(self._entities)

    @property
    def num_relations(self) -> int:
        """See `Names`."""
        return len(self._relations)

    def add_entity(self, name: str) -> int:
        """The id of `name`, which is appended if it is new."""
        known = self._entity_ids.get(name)
        if known is not None:
            return known
        require_entity_name(name)
        return self._append_entity(name)

    def add_relation(self, name: str) -> int:
        """The even id of `name`, which is appended if it is new."""
        known = self._relation_ids.get(name)
        if known is not None:
            return known
        require_relation_name(name)
        return self._append_relation(name)

    def add_entities(self, names: Iterable[str]) -> None:
        """Append those that are new, in order of first appearance."""
        for name in dict.fromkeys(names):
            self.add_entity(name)

    def add_relations(self, names: Iterable[str]) -> None:
        """Append those that are new, in order of first appearance."""
        for name in dict.fromkeys(names):
            self.add_relation(name)

    def entity_id(self, name: str) -> int:
        """See `Names`."""
        known = self._entity_ids.get(name)
        if known is None:
            raise UnknownName("entity", name, likely_spellings(name, self._entities))
        return known

    def relation_id(self, name: str) -> int:
        """See `Names`."""
        forward = name.removesuffix(INVERSE)
        known = self._relation_ids.get(forward)
        if known is None:
            raise UnknownName("relation", name, likely_spellings(forward, self._relations))
        return known if forward == name else known + 1

    def entity_ids(self, names: Iterable[str]) -> list[int]:
        """The ids of many entities that exist."""
        try:
            return list(map(self._entity_ids.__getitem__, names))
        except KeyError as error:
            name = error.args[0]
            raise UnknownName("entity", name, likely_spellings(name, self._entities)) from None

    def relation_ids(self, names: Iterable[str]) -> list[int]:
        """The even ids of many forward relations that exist."""
        try:
            return list(map(self._relation_ids.__getitem__, names))
        except KeyError as error:
            name = error.args[0]
            raise UnknownName("relation", name, likely_spellings(name, self._relations)) from None

    def entity_name(self, entity: int) -> str:
        """See `Names`."""
        require_id(entity, self.num_entities, "entity")
        return self._entities[entity]

    def relation_name(self, relation: int) -> str:
        """See `Names`."""
        require_id(relation, 2 * self.num_relations, "relation")
        return marked(self._relations[relation // 2], relation)

    def to_json(self) -> dict[str, list[str]]:
        """Both lists of names, in order of their ids."""
        return {"entities": list(self._entities), "relations": list(self._relations)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The vocabulary that `to_json` gave."""
        vocabulary = cls(_stored_names(stored, "entities"), _stored_names(stored, "relations"))
        for kind, names in vocabulary.to_json().items():
            if len(names) != len(stored[kind]):
                raise DataError(f"a stored vocabulary has a name twice among its {kind}")
        return vocabulary

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self._entities == other._entities and self._relations == other._relations

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({self.num_entities} entities, {self.num_relations} relations)"

    def _append_entity(self, name: str) -> int:
        new = self._entity_ids[name] = len(self._entities)
        self._entities.append(name)
        return new

    def _append_relation(self, name: str) -> int:
        new = self._relation_ids[name] = 2 * len(self._relations)
        self._relations.append(name)
        return new


def marked(forward: str, relation: int) -> str:
    """The name of a relation id, given its forward name: an odd id has the mark behind it."""
    return forward + INVERSE if relation % 2 else forward


def require_entity_name(name: str) -> None:
    """Refuse what cannot name an entity."""
    _require_visible(name, "entity")


def require_relation_name(name: str) -> None:
    """Refuse what cannot name a forward relation."""
    _require_visible(name, "relation")
    if name.endswith(INVERSE):
        raise DataError(
            f"the relation {name!r} ends with {INVERSE!r}, which marks inverse relations; rename it"
        )


def require_id(number: int, count: int, kind: str) -> None:
    """Refuse an id that nobody has."""
    if not 0 <= number < count:
        raise DataError(f"there is no {kind} with id {number}; ids go from 0 to below {count}")


def _require_visible(name: str, kind: str) -> None:
    if not name.strip():
        raise DataError(f"empty name of {kind}: every name needs at least one visible character")


def _stored_names(stored: Mapping[str, Any], kind: str) -> list[str]:
    names = stored.get(kind)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"a stored vocabulary must have a list of names under {kind!r}")
    return names
