"""Names and ids of entities and relations. A vocabulary only appends: ids never change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from lkge.errors import DataError, UnknownName

INVERSE = "⁻¹"
"""The suffix of the name of an inverse relation."""


class Names(Protocol):
    """Read-only mapping between names and ids. Entities have the ids 0, 1, 2, …; the k-th relation
    has the id 2k, its inverse 2k + 1."""

    @property
    def num_entities(self) -> int:
        """The number of entities."""
        ...

    @property
    def num_relations(self) -> int:
        """The number of forward relations; with inverses there are twice as many ids."""
        ...

    def entity_id(self, name: str) -> int:
        """The id of an entity; UnknownName if there is none of that name."""
        ...

    def relation_id(self, name: str) -> int:
        """The id of a relation, even for `name`, odd for `name⁻¹`; UnknownName if there is none."""
        ...

    def entity_name(self, entity: int) -> str:
        """The name of an entity id."""
        ...

    def relation_name(self, relation: int) -> str:
        """The name of a relation id; that of an odd id ends with `INVERSE`."""
        ...


class Vocabulary:
    """`Names` in memory. Names can be added."""

    def __init__(self, entities: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        self._entities: list[str] = []
        self._relations: list[str] = []
        self._entity_ids: dict[str, int] = {}
        self._relation_ids: dict[str, int] = {}
        self.add_entities(entities)
        self.add_relations(relations)

    @property
    def entities(self) -> Sequence[str]:
        """All entity names in order of their ids."""
        return self._entities

    @property
    def relations(self) -> Sequence[str]:
        """All forward relation names in order of their ids."""
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
        if name not in self._entity_ids:
            require_entity_name(name)
            self._entity_ids[name] = len(self._entities)
            self._entities.append(name)
        return self._entity_ids[name]

    def add_relation(self, name: str) -> int:
        """The even id of `name`, which is appended if it is new."""
        if name not in self._relation_ids:
            require_relation_name(name)
            self._relation_ids[name] = 2 * len(self._relations)
            self._relations.append(name)
        return self._relation_ids[name]

    def add_entities(self, names: Iterable[str]) -> None:
        """Append the names that are new, in order of first appearance."""
        for name in dict.fromkeys(names):
            self.add_entity(name)

    def add_relations(self, names: Iterable[str]) -> None:
        """Append the names that are new, in order of first appearance."""
        for name in dict.fromkeys(names):
            self.add_relation(name)

    def entity_id(self, name: str) -> int:
        """See `Names`."""
        known = self._entity_ids.get(name)
        if known is None:
            raise UnknownName("entity", name, self._entities)
        return known

    def relation_id(self, name: str) -> int:
        """See `Names`."""
        forward = name.removesuffix(INVERSE)
        known = self._relation_ids.get(forward)
        if known is None:
            raise UnknownName("relation", name, self._relations)
        return known if forward == name else known + 1

    def entity_ids(self, names: Iterable[str]) -> list[int]:
        """The ids of many entities."""
        return list(map(self.entity_id, names))

    def relation_ids(self, names: Iterable[str]) -> list[int]:
        """The even ids of many forward relations."""
        try:
            return list(map(self._relation_ids.__getitem__, names))
        except KeyError as error:
            raise UnknownName("relation", error.args[0], self._relations) from None

    def entity_name(self, entity: int) -> str:
        """See `Names`."""
        require_id(entity, self.num_entities, "entity")
        return self._entities[entity]

    def relation_name(self, relation: int) -> str:
        """See `Names`."""
        require_id(relation, 2 * self.num_relations, "relation")
        return marked(self._relations[relation // 2], relation)

    def to_json(self) -> dict[str, list[str]]:
        """Both lists of names in order of their ids."""
        return {"entities": list(self._entities), "relations": list(self._relations)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
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


def marked(forward: str, relation: int) -> str:
    """The name of a relation id, given its forward name; that of an odd id ends with `INVERSE`."""
    return forward + INVERSE if relation % 2 else forward


def require_entity_name(name: str) -> None:
    """Raise DataError if `name` cannot be the name of an entity."""
    _require_visible(name, "entity")


def require_relation_name(name: str) -> None:
    """Raise DataError if `name` cannot be the name of a forward relation."""
    _require_visible(name, "relation")
    if name.endswith(INVERSE):
        raise DataError(
            f"the relation {name!r} ends with {INVERSE!r}, which marks inverse relations; rename it"
        )


def require_id(number: int, count: int, kind: str) -> None:
    """Raise DataError if `number` is not an id."""
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
