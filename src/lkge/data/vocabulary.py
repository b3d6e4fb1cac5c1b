"""Names and ids of entities and relations. A vocabulary only appends: ids never change."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

from lkge.errors import DataError, UnknownName

INVERSE = "⁻¹"
"""The suffix of the name of an inverse relation."""


class Table(Protocol):
    """Names with the numbers 0, 1, 2, … `near` gives known names, the most similar among them."""

    def __len__(self) -> int: ...
    def name(self, number: int) -> str: ...
    def find(self, name: str) -> int | None: ...
    def near(self, name: str) -> list[str]: ...


class Names:
    """Read-only mapping between names and ids, from two tables. Entities have the ids 0, 1, 2, …;
    the k-th relation has the id 2k, its inverse 2k + 1."""

    def __init__(self, entity_table: Table, relation_table: Table) -> None:
        self.entity_table = entity_table
        self.relation_table = relation_table

    @property
    def num_entities(self) -> int:
        """The number of entities."""
        return len(self.entity_table)

    @property
    def num_relations(self) -> int:
        """The number of forward relations; with inverses there are twice as many ids."""
        return len(self.relation_table)

    def entity_id(self, name: str) -> int:
        """The id of an entity; UnknownName if there is none of that name."""
        number = self.entity_table.find(require_text(name))
        if number is None:
            raise UnknownName("entity", name, self.entity_table.near(name))
        return number

    def relation_id(self, name: str) -> int:
        """The id of a relation, even for `name`, odd for `name⁻¹`; UnknownName if there is none."""
        forward = require_text(name).removesuffix(INVERSE)
        number = self.relation_table.find(forward)
        if number is None:
            raise UnknownName("relation", name, self.relation_table.near(forward))
        return 2 * number + (forward != name)

    def entity_name(self, entity: int) -> str:
        """The name of an entity id."""
        _require_id(entity, self.num_entities, "entity")
        return self.entity_table.name(entity)

    def relation_name(self, relation: int) -> str:
        """The name of a relation id; that of an odd id ends with `INVERSE`."""
        _require_id(relation, 2 * self.num_relations, "relation")
        return self.relation_table.name(relation // 2) + (INVERSE if relation % 2 else "")


class _NameList:
    """A table in memory. Names can be added."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.names)

    def name(self, number: int) -> str:
        return self.names[number]

    def find(self, name: str) -> int | None:
        return self.numbers.get(name)

    def near(self, name: str) -> list[str]:
        return self.names

    def add(self, name: str, require: Callable[[str], None]) -> int:
        """The number of `name`, which is checked and appended if it is new."""
        if name not in self.numbers:
            require(name)
            self.numbers[name] = len(self.names)
            self.names.append(name)
        return self.numbers[name]


class Vocabulary(Names):
    """`Names` in memory. Names can be added."""

    entity_table: _NameList
    relation_table: _NameList

    def __init__(self, entities: Iterable[str] = (), relations: Iterable[str] = ()) -> None:
        super().__init__(_NameList(), _NameList())
        for name in entities:
            self.add_entity(name)
        for name in relations:
            self.add_relation(name)

    @property
    def entities(self) -> Sequence[str]:
        """All entity names in order of their ids."""
        return self.entity_table.names

    @property
    def relations(self) -> Sequence[str]:
        """All forward relation names in order of their ids."""
        return self.relation_table.names

    def add_entity(self, name: str) -> int:
        """The id of `name`, which is appended if it is new."""
        return self.entity_table.add(name, require_entity_name)

    def add_relation(self, name: str) -> int:
        """The even id of `name`, which is appended if it is new."""
        return 2 * self.relation_table.add(name, require_relation_name)

    def named(self, facts: Iterable[Sequence[int]]) -> Iterator[tuple[str, str, str]]:
        """Forward facts by name."""
        entities, relations = self.entities, self.relations
        return ((entities[s], relations[r // 2], entities[o]) for s, r, o in facts)

    def to_json(self) -> dict[str, list[str]]:
        """Both lists of names in order of their ids."""
        return {"entities": list(self.entities), "relations": list(self.relations)}

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
        return self.to_json() == other.to_json()

    def __repr__(self) -> str:
        return f"Vocabulary({self.num_entities} entities, {self.num_relations} relations)"


def require_text(name: object) -> str:
    """A name; DataError if it is no text."""
    if not isinstance(name, str):
        raise DataError(f"{name!r} is not a name; a name is a text")
    return name


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


def _require_id(number: int, count: int, kind: str) -> None:
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
