"""An edit of a graph: remove, rename or merge by name. A batch in the inbox may have one."""

from typing import Literal

from pydantic.dataclasses import dataclass

from lkge.data.vocabulary import require_entity_name, require_relation_name
from lkge.errors import DataError, SettingsError
from lkge.store.records import STRICT

REMOVE: Literal["remove"] = "remove"
RENAME: Literal["rename"] = "rename"
RENAME_RELATION: Literal["rename_relation"] = "rename_relation"
MERGE: Literal["merge"] = "merge"
Action = Literal["remove", "rename", "rename_relation", "merge"]

Pair = tuple[str, str]


@dataclass(frozen=True, config=STRICT)
class Edit:
    """One change of a graph.

    remove            the entity `name` and all its facts
    rename            the entity `name` gets the name `to`, which must be free
    rename_relation   the same for a relation
    merge             the facts of the entity `name` become facts of `to`; `name` is removed
    """

    action: Action
    name: str
    to: str = ""

    def __post_init__(self) -> None:
        if (self.action == REMOVE) != (self.to == ""):
            raise ValueError(f"a {self.action} has {'no' if self.to else 'a'} second name")

    def __str__(self) -> str:
        match self.action:
            case "remove":
                return f"remove {self.name!r}"
            case "merge":
                return f"merge {self.name!r} into {self.to!r}"
            case "rename":
                return f"rename {self.name!r} to {self.to!r}"
            case _:
                return f"rename relation {self.name!r} to {self.to!r}"


def edit_of(
    remove: str | None = None,
    rename: Pair | None = None,
    rename_relation: Pair | None = None,
    merge: Pair | None = None,
) -> Edit:
    """The edit that is given; it must be exactly one, with names that can be stored."""
    pairs: dict[Action, Pair | None] = {
        REMOVE: None if remove is None else (remove, ""),
        RENAME: rename,
        RENAME_RELATION: rename_relation,
        MERGE: merge,
    }
    given = [(action, pair) for action, pair in pairs.items() if pair is not None]
    if len(given) != 1:
        raise SettingsError(
            f"an edit is one change, not {len(given)}: give one of remove, rename, "
            "rename_relation and merge"
        )
    ((action, pair),) = given
    if isinstance(pair, str) or len(pair) != 2:
        raise SettingsError(f"{action} = {pair!r} must be two names: the old one and the new one")
    name, to = pair
    if action != REMOVE:
        (require_relation_name if action == RENAME_RELATION else require_entity_name)(to)
    require_encodable(name, to)
    if name == to:
        raise DataError(f"{name!r} is given twice; give two names that differ")
    return Edit(action, name, to)


def require_encodable(*names: str) -> None:
    """DataError if a name is not valid Unicode."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"the name {error.object!r} is not valid Unicode; rename it") from error
