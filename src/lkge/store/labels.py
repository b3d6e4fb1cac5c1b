"""Labels: a text that people read for the name of an entity or a relation.

All labels are in one file of the store, which is replaced as a whole. They belong to no version and
no score depends on them. A label may come before the facts with its name.
"""

import warnings
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from pathlib import Path

from pydantic.dataclasses import dataclass

from lkge.data.files import as_run_error
from lkge.data.name_search import Texts
from lkge.data.names import encoded
from lkge.data.vocabulary import INVERSE
from lkge.errors import DamagedFile, DamageWarning, DataError
from lkge.store.records import STRICT, read_record, write_record

LABELS = "labels.json"


@dataclass(frozen=True, config=STRICT)
class Labels:
    """Label by name."""

    labels: dict[str, str]


class LabelMap(dict[str, str]):
    """Label by name. It never changes."""

    def of(self, names: Iterable[str]) -> dict[str, str]:
        """The labels of some names; that of an inverse relation is marked as the inverse is."""
        found = {}
        for name in names:
            forward = name.removesuffix(INVERSE)
            if name in self:
                found[name] = self[name]
            elif forward in self:
                found[name] = self[forward] + INVERSE
        return found

    def containing(self, text: str) -> list[str]:
        """The names whose labels contain a text, in any case."""
        return [self._names[place] for place in self._texts.containing(text)]

    def alike(self, text: str, limit: int) -> list[str]:
        """The names whose labels are most like a text."""
        return [self._names[place] for place in self._texts.alike(text, limit)]

    @cached_property
    def _names(self) -> list[str]:
        return list(self)

    @cached_property
    def _texts(self) -> Texts:
        return Texts.of(*encoded(self.values()))


def read_labels(folder: Path) -> LabelMap:
    """The label of each name that has one, of the store in `folder`."""
    path = folder / LABELS
    return LabelMap(read_record(path, Labels).labels if path.exists() else {})


def current_labels(folder: Path) -> LabelMap:
    """The same; none, and a warning, if the file is damaged. It is read when it has changed."""
    path = folder / LABELS
    with as_run_error(path):
        found = path.stat() if path.exists() else None
    return _as_of(folder, found and (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=4)
def _as_of(folder: Path, stamp: tuple[int, ...] | None) -> LabelMap:
    try:
        return read_labels(folder)
    except DamagedFile as error:
        warnings.warn(f"{error}; no labels are shown", DamageWarning, stacklevel=4)
        return LabelMap()


def write_labels(folder: Path, labels: Mapping[str, str]) -> None:
    """Replace all labels. Only for who holds the lock of the inbox."""
    write_record(folder / LABELS, Labels(dict(labels)))


def changed_labels(before: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The labels with those given in place of earlier ones; an empty one removes a label."""
    for name, label in given.items():
        try:
            (name + label).encode()
        except UnicodeEncodeError as error:
            raise DataError(f"the label of {name!r} is not valid Unicode; mend it") from error
    return {name: label for name, label in {**before, **given}.items() if label.strip()}
