"""The log of a store: a file to which each version adds a line, each with a checksum.

    {"checksum": "…", "record": {…}}

The checksum is the SHA-256 of the checksum of the line before and the record, so that it stands for
all lines up to there. A manifest has the number of bytes up to its own line, and that checksum.
What follows behind the newest version is the rest of a crash; the next writer cuts it off.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

from lkge.data.files import as_run_error, reason_of, sync_folder
from lkge.data.reading import max_memory, open_regular, read_regular
from lkge.errors import DamagedFile
from lkge.evaluation.results import nan_to_none
from lkge.store.records import REMEDY, LogPosition, VersionRecord, from_json, to_json

BEFORE, BETWEEN, BEHIND = b'{"checksum":"', b'","record":', b"}\n"
FIRST = len(BEFORE) + 64 + len(BETWEEN)
"""Where in a line the record begins."""


class Log(Sequence[VersionRecord]):
    """The lines up to a position. Reading verifies all; a line becomes a record when asked for.
    `before` is a log that was read before: its records are taken over if its lines are the same."""

    def __init__(
        self,
        path: Path,
        position: LogPosition,
        *,
        with_unknown: bool = False,
        before: "Log | None" = None,
    ) -> None:
        lines = _read(path, position.bytes).splitlines(keepends=True)
        if last_checksum(lines) != position.checksum:
            raise DamagedFile(f"{path}: damaged; {REMEDY}")
        self._lines, self._with_unknown = lines, with_unknown
        goes_on = before is not None and lines[: len(before)] == before._lines
        self._records: dict[int, VersionRecord] = (
            dict(before._records) if before and goes_on else {}
        )

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, place: int) -> VersionRecord: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[VersionRecord]: ...
    def __getitem__(self, place: int | slice) -> VersionRecord | Sequence[VersionRecord]:
        if isinstance(place, slice):
            return tuple(self[each] for each in range(len(self))[place])
        place = range(len(self))[place]
        if place not in self._records:
            self._records[place] = _record(self._lines[place], self._with_unknown)
        return self._records[place]


def line_of(record: VersionRecord, before: str) -> tuple[bytes, str]:
    """A line, and its checksum; `before` is that of the line before."""
    tree = nan_to_none(to_json(record))
    body = json.dumps(tree, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    checksum = _chained(before, body)
    return BEFORE + checksum.encode() + BETWEEN + body + BEHIND, checksum


def append(path: Path, position: LogPosition, record: VersionRecord) -> LogPosition:
    """Add a line behind a position, and wait until it is on the disk; what was there is cut off.
    Only for who holds the writer's lock."""
    line, checksum = line_of(record, position.checksum)
    require_end(path, position)
    with as_run_error(path), path.open("ab") as file:
        if file.tell() > position.bytes:
            file.truncate(position.bytes)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
        if not position.bytes:
            sync_folder(path.parent)
    return LogPosition(position.bytes + len(line), checksum)


def require_end(path: Path, position: LogPosition) -> None:
    """DamagedFile if no line with the checksum of a position ends there."""
    if not position.bytes:
        return
    with as_run_error(path), open_regular(path, follow=False) as file:
        start = position.bytes
        while start:  # the last line: backwards until a line begins
            step = min(start, 1 << 14)
            start -= step
            file.seek(start)
            tail = file.read(position.bytes - start)
            if b"\n" in tail[:-1] or not start:
                break
    line = tail[:-1].rpartition(b"\n")[2] + tail[-1:]
    if len(tail) < position.bytes - start or line[len(BEFORE) :][:64] != position.checksum.encode():
        raise DamagedFile(f"{path}: damaged; {REMEDY}")


def positions(content: bytes) -> dict[int, tuple[LogPosition, VersionRecord]]:
    """Where the log of each version ends, and its record; up to the first line that is damaged."""
    found, size, checksum = {}, 0, ""
    for version, line in enumerate(content.splitlines(keepends=True)):
        checksum, size = _chained(checksum, line[FIRST : -len(BEHIND)]), size + len(line)
        if not _is_line(line, checksum):
            break
        found[version] = LogPosition(size, checksum), _record(line, with_unknown=True)
    return found


def last_checksum(lines: Sequence[bytes]) -> str | None:
    """The checksum of the last line, if every line has the checksum that it must have."""
    checksum = ""
    for line in lines:
        checksum = _chained(checksum, line[FIRST : -len(BEHIND)])
        if not _is_line(line, checksum):
            return None
    return checksum


def readable(path: Path) -> Iterator[VersionRecord]:
    """The records of those lines that can be read, for a repair."""
    try:
        content = read_regular(path, max_memory(), follow=False)
    except OSError:
        return
    for line in content.splitlines(keepends=True):
        try:
            if line.startswith(BEFORE) and line.endswith(BEHIND):
                yield _record(line)
        except ValueError:
            continue


def _is_line(line: bytes, checksum: str) -> bool:
    return line[:FIRST] == BEFORE + checksum.encode() + BETWEEN and line.endswith(BEHIND)


def _record(line: bytes, with_unknown: bool = False) -> VersionRecord:
    tree = json.loads(line[FIRST : -len(BEHIND)])
    return from_json(VersionRecord, tree, with_unknown=with_unknown)


def _chained(before: str, body: bytes) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()


def _read(path: Path, size: int) -> bytes:
    """The first bytes of a file."""
    try:
        with open_regular(path, follow=False) as file:
            content = file.read(size)
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read: {reason_of(error)}") from error
    if len(content) != size:
        raise DamagedFile(f"{path}: damaged, truncated: {len(content)} of {size} bytes; {REMEDY}")
    return content
