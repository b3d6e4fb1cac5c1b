"""Names and known facts of a version, from a base file and delta files; and what a delta has.

names   of `entity` and `relation`: the names that were added, and numbers with other names
known   `changed` (n, 3): facts that came or went, in order; `changed.since` (n,): the version that
        added each, or -1
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.changed_facts import ChangedFacts
from lkge.data.changed_names import ChangedNames
from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, NameTable, require_fit
from lkge.store.array_files import ArrayFile
from lkge.store.arrays import Arrays
from lkge.store.content import Change, Content

TABLES = "entity", "relation"
CHANGED, SINCE = "changed", "changed.since"
Verify = Callable[[], None]


def names_of(files: Sequence[ArrayFile]) -> MappedNames:
    """The names in files of names."""
    base, deltas = MappedNames.from_arrays(files[0].arrays), [file.arrays for file in files[1:]]
    tables = zip(TABLES, (base.entity_table, base.relation_table), strict=True)
    return MappedNames(*(ChangedNames.after(table, deltas, name) for name, table in tables))


def known_of(files: Sequence[ArrayFile]) -> KnownFacts:
    """The known facts in files of known facts."""
    changes = [(file.arrays[CHANGED], file.arrays[SINCE]) for file in files[1:]]
    for facts, since in changes:
        fits = facts.shape == (len(since), 3) and facts.dtype == since.dtype == np.int32
        require_fit(fits, f"facts of shape {facts.shape}, known since {len(since)} versions")
    return ChangedFacts(KnownFacts.from_arrays(files[0].arrays), changes)


def changed_names(before: MappedNames, after: MappedNames, verify: Verify) -> Content:
    """New names as what differs from those before; `verify` is called before the others are
    copied."""
    delta: dict[str, NDArray[Any]] = {}
    pairs = (
        (before.entity_table, after.entity_table),
        (before.relation_table, after.relation_table),
    )
    for name, (old, new) in zip(TABLES, pairs, strict=True):
        if not isinstance(new, ChangedNames) or not _has_base_of(old, new):
            return after.arrays()
        delta |= new.delta(old, name)
    return Change(partial(_verified, verify, after), delta)


def changed_facts(before: KnownFacts, after: KnownFacts, verify: Verify) -> Content:
    """The same for known facts."""
    if not (isinstance(before, ChangedFacts) and isinstance(after, ChangedFacts)):
        return after.arrays()
    changes = after.changes[len(before.changes) :]
    delta: dict[str, NDArray[Any]] = {}
    if changes:
        delta = {
            CHANGED: np.concatenate([facts for facts, _ in changes]),
            SINCE: np.concatenate([since for _, since in changes]),
        }
    return Change(partial(_verified, verify, after), delta)


def _has_base_of(old: NameTable, new: ChangedNames) -> bool:
    return isinstance(old, ChangedNames) and old.base is new.base


def _verified(verify: Verify, content: MappedNames | KnownFacts) -> Arrays:
    """All arrays, after what is copied was verified."""
    verify()
    return content.arrays()
