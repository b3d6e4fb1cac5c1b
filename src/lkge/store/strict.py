"""Dataclasses in sealed JSON files, and back, with nothing missing, unknown or of another type."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, is_dataclass
from functools import cache, partial
from pathlib import Path
from types import EllipsisType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from lkge.data.files import as_run_error
from lkge.errors import DamagedFile, RunError
from lkge.evaluation.results import nan_to_none
from lkge.learning.checkpoint import read_sealed, write_sealed

FORMAT = 1
REMEDY = "`lkge check` finds all damage, `lkge check --repair` mends what can be mended"

Record = TypeVar("Record")
Reading = Callable[[Any], Any]


def write_tree(path: Path, record: Any) -> None:
    """Write a dataclass as sealed JSON, atomically."""
    with as_run_error(path):
        write_sealed(path, {"format": FORMAT, **to_tree(record)})


def read_tree(path: Path, kind: type[Record]) -> Record:
    """What `write_tree` wrote to a file, its seal and every field checked."""
    try:
        tree = read_sealed(path)
        if tree.pop("format", None) != FORMAT:
            raise RunError(f"{path}: written in another format; use the release that wrote it")
        return from_tree(kind, tree)
    except (DamagedFile, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{path}: damaged; {REMEDY}") from error


def to_tree(record: Any) -> dict[str, Any]:
    """The fields of a dataclass as `json.dump` takes them; nan is null."""
    return dict(nan_to_none(asdict(record)))


def from_tree(kind: type[Record], tree: Any) -> Record:
    """The dataclass that `to_tree` took apart.

    Its fields may be numbers, texts, dataclasses, and lists, tuples and dicts of these. A tree that
    does not fit is a KeyError, a TypeError or whatever the dataclass itself raises.
    """
    readings = _readings(cast(Hashable, kind))
    if not isinstance(tree, Mapping) or tree.keys() != readings.keys():
        raise KeyError(f"the fields must be {', '.join(readings)}")
    return kind(**{name: read(tree[name]) for name, read in readings.items()})


@cache
def _readings(kind: Hashable) -> dict[str, Reading]:
    return {name: _reading(hint) for name, hint in get_type_hints(kind).items()}


def _reading(hint: Any) -> Reading:
    """What takes a plain value to one of the type `hint`."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if hint is float:
        return _number
    if origin is dict:
        return partial(_dict, _reading(parts[1]))
    if origin is list:
        return partial(_list, _reading(parts[0]))
    if origin is tuple:
        any_length = isinstance(parts[-1], EllipsisType)
        return partial(_tuple, _reading(parts[0]), None if any_length else len(parts))
    return partial(from_tree if is_dataclass(hint) else _exactly, hint)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} must be of type {kind.__name__}")
    return value


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    return float(value if type(value) is int else _exactly(float, value))


def _dict(read: Reading, value: Any) -> dict[str, Any]:
    return {name: read(item) for name, item in _exactly(dict, value).items()}


def _list(read: Reading, value: Any) -> list[Any]:
    return [read(item) for item in _exactly(list, value)]


def _tuple(read: Reading, length: int | None, value: Any) -> tuple[Any, ...]:
    items = tuple(_list(read, value))
    if length not in (None, len(items)):
        raise TypeError(f"{value!r} must have {length} items")
    return items
