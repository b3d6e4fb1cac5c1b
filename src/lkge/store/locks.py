"""The writer's lock: one writer at a time; the lock file names its holder. A consolidation, which
may run in the background, is waited for."""

import getpass
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic.dataclasses import dataclass

from lkge.data.documents import parse_json
from lkge.data.files import as_run_error, held
from lkge.data.reading import read_regular
from lkge.errors import StoreLocked
from lkge.store.contradictions import naming_damage
from lkge.store.records import COMPACT, CONSOLIDATE, STRICT, from_json, now, to_json
from lkge.store.versions import WRITER_LOCK, Store
from lkge.training.events import Listener, Waiting, ignore

MAX_BYTES = 1 << 16
"""Of the lock file."""
TRIES, PAUSE = 100, 0.02
"""How often a lock is tried, in seconds apart, if nobody says that he holds it: who has just taken
it will say so, and some hold it only to see whether it is free."""
NAMED_TRIES = 5
"""How often if its holder is named."""


@dataclass(frozen=True, config=STRICT)
class Holder:
    """Who holds the lock."""

    pid: int
    host: str
    user: str
    command: str
    since: str

    def __str__(self) -> str:
        who = f"process {self.pid} of {self.user} on {self.host}"
        return f"{who} (`{self.command}`, since {self.since})"


@contextmanager
def writing(
    store: Store, command: str, listener: Listener = ignore, *, old: bool = False
) -> Iterator[None]:
    """Hold the writer's lock of a store within the block; `command` is shown to other writers. Only
    who migrates may write to an `old` format.

    The system frees the lock as soon as the process has ended, however it ended.
    """
    if not old:
        store.require_writable()
    path, tries, said = store.folder / WRITER_LOCK, TRIES, False
    while tries:
        with held(path) as alone:
            if alone:
                with _named(path, command), naming_damage(store):
                    yield
                return
        holder = _holder(path)
        if holder is None or holder.command not in (CONSOLIDATE, COMPACT):
            tries -= 1 if holder is None else TRIES // NAMED_TRIES
        elif not said:
            listener(Waiting(str(holder)))
            said = True
        time.sleep(PAUSE)
    who = _holder(path) or "another process"
    raise StoreLocked(f"{store.folder}: being written by {who}; wait for it to end")


@contextmanager
def _named(path: Path, command: str) -> Iterator[None]:
    """Say within the lock file who holds it. A file in its place would not be locked."""
    with as_run_error(path):
        holder = Holder(os.getpid(), socket.gethostname(), _user(), command, now())
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(to_json(holder)).encode())
    try:
        yield
    finally:
        with suppress(OSError):
            os.truncate(path, 0)


def _holder(path: Path) -> Holder | None:
    """Who holds the lock, if its file says so."""
    try:
        return from_json(Holder, parse_json(read_regular(path, MAX_BYTES, follow=False)))
    except (OSError, ValueError):
        return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
