"""Whether the arrays of a version can be what they are taken for: every offset and id in range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lkge.data.known_facts import KnownFacts
from lkge.data.names import MappedNames, NameTable, require_fit, stored_array
from lkge.store.records import VersionRecord
from lkge.store.versions import ANSWERING, EXAM, KNOWN, MODEL, NAMES

Columns = Mapping[str, NDArray[Any]]


def require_sense(file: str, arrays: Columns, record: VersionRecord) -> None:
    """DamagedFile if the arrays of a file contradict themselves or the version's totals."""
    if file == NAMES:
        _require_names(MappedNames.from_arrays(arrays), record)
    elif file == KNOWN:
        _require_answers(KnownFacts.from_arrays(arrays), record)
    elif file == EXAM:
        _require_exam(arrays, record)
    elif file in (MODEL, ANSWERING):
        _require_rows(arrays, record)


def _require_names(names: MappedNames, record: VersionRecord) -> None:
    for kind, table, count in (
        ("entity", names.entity_table, record.entities),
        ("relation", names.relation_table, record.relations),
    ):
        require_fit(len(table) == count, f"{len(table)} {kind} names instead of {count}")
        _require_table(kind, table)


def _require_table(kind: str, table: NameTable) -> None:
    starts = np.append(0, table.ends[:-1])
    require_fit(bool((starts < table.ends).all()), f"{kind} names that end before they begin")
    numbered = np.array_equal(np.sort(table.order), np.arange(len(table)))
    require_fit(numbered, f"the order of {kind} names has not every name once")


def _require_answers(answers: KnownFacts, record: VersionRecord) -> None:
    offsets = answers.offsets
    require_fit(_ascend(answers.keys), "queries out of order")
    require_fit(offsets[0] == 0 and _ascend(offsets), "answers that end before they begin")
    require_fit(offsets[-1] == len(answers.answers), "answers of no query")
    _require_ids("entity", answers.keys >> 32, record.entities)
    _require_ids("relation", answers.keys & 0xFFFFFFFF, 2 * record.relations)
    _require_ids("entity", answers.answers, record.entities)
    _require_ids("version", answers.since, record.version + 1)


def _require_exam(arrays: Columns, record: VersionRecord) -> None:
    since = stored_array(arrays, "since", np.int32)
    facts = arrays.get("facts", since)
    require_fit(facts.shape == (len(since), 3), f"{len(since)} facts of shape {facts.shape}")
    _require_ids("entity", facts[:, (0, 2)], record.entities)
    _require_ids("relation", facts[:, 1], 2 * record.relations)
    _require_ids("version", since, record.version + 1)


def _require_rows(arrays: Columns, record: VersionRecord) -> None:
    for name in {"entity", "tables.entity"} & arrays.keys():
        rows = len(arrays[name])
        require_fit(rows == record.entities, f"{rows} rows of {record.entities} entities")


def _require_ids(kind: str, ids: NDArray[Any], count: int) -> None:
    within = not ids.size or bool(ids.min() >= 0 and ids.max() < count)
    require_fit(within, f"a number of {kind} that is not below {count}")


def _ascend(values: NDArray[Any]) -> bool:
    return bool((values[1:] > values[:-1]).all())
