"""Suggested facts as a file: CSV, JSON Lines or Parquet, by its suffix.

The columns are subject, relation, object, score and plausibility; if a name has a label, those of
the labels follow, empty where there is none.
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lkge.data.files import as_data_error, write_bytes_atomically
from lkge.errors import SettingsError
from lkge.store.labels import LabelMap
from lkge.store.suggesting import Suggestion

LABELLED = Suggestion._fields[:3]
Columns = dict[str, list[Any]]


def require_format(path: Path) -> None:
    """SettingsError if a file of that name cannot be written."""
    if path.suffix.lower() not in WRITERS:
        known = ", ".join(WRITERS)
        raise SettingsError(f"{path}: unknown suffix {path.suffix!r}; choose one of {known}")


def write_suggestions(path: Path, facts: Sequence[Suggestion], labels: LabelMap) -> None:
    """Write facts atomically, in their order."""
    require_format(path)
    columns: Columns = {
        name: [fact[place] for fact in facts] for place, name in enumerate(Suggestion._fields)
    }
    texts = labels.of(name for field in LABELLED for name in columns[field])
    if texts:
        columns |= {
            f"{field}_label": [texts.get(name, "") for name in columns[field]] for field in LABELLED
        }
    with as_data_error(path):
        write_bytes_atomically(path, WRITERS[path.suffix.lower()](columns))


def _csv(columns: Columns) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([columns, *zip(*columns.values(), strict=True)])
    return text.getvalue().encode()


def _json_lines(columns: Columns) -> bytes:
    rows = zip(*columns.values(), strict=True)
    lines = (json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def _parquet(columns: Columns) -> bytes:
    import pyarrow
    import pyarrow.parquet

    numbers = ("score", "plausibility")
    types = {name: pyarrow.float64() if name in numbers else pyarrow.string() for name in columns}
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns, pyarrow.schema(types)), sink)
    return sink.getvalue()


WRITERS: dict[str, Callable[[Columns], bytes]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
