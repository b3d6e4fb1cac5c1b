"""Learning in a child process.

The parent runs `python -m lkge.serve.learner FOLDER` with low priority and one thread, and reads
its events, one JSON object a line. The child calls `LivingGraph.learn_waiting`, or with the word
`--relearn` `LivingGraph.relearn`. The child inherits no sockets, is in its own process group, and
ends on SIGTERM; a later child continues its work. Its stdin is a pipe that the parent never writes
to: the pipe ends with the parent, however that ended, and then the child ends too.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from asyncio import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lkge

if TYPE_CHECKING:  # the child watches its parent before it imports what is slow to import
    from lkge.store.versions import Store

CHILD_ENVIRONMENT = {
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONUTF8": "1",
}
SECRETS = {"LKGE_TOKEN", "LKGE_READ_TOKEN"}  # environment variables that the child does not get
RELEARN = "--relearn"
"""The word that makes the child learn all known facts at once."""
NICENESS = 10
MAX_LINE_BYTES = 1 << 20
SECONDS_TO_STOP = 10.0


def learn(folder: str) -> None:
    """The child process: learn all waiting batches, print events; exit code 1 on an error."""
    from lkge.training.events import JsonLines

    try:
        lkge.open(folder).learn_waiting(JsonLines(sys.stdout))
    except (lkge.LkgeError, OSError) as error:
        sys.exit(f"error: {error}")


def relearn(folder: str) -> None:
    """The child process: learn all known facts at once, print events; exit code 1 on an error."""
    from lkge.training.events import JsonLines

    try:
        lkge.open(folder).relearn(JsonLines(sys.stdout))
    except (lkge.LkgeError, OSError) as error:
        sys.exit(f"error: {error}")


def child_command(folder: Path) -> list[str]:
    """The command of the child process."""
    return [sys.executable, "-m", "lkge.serve.learner", str(folder)]


def is_unlocked(store: Store) -> bool:
    """Whether no process writes to the store. A process that writes also learns the batches."""
    from lkge.data.files import held
    from lkge.store.versions import WRITER_LOCK

    with held(store.folder / WRITER_LOCK) as acquired:
        return acquired


class LearnerFailed(Exception):
    """The child process ended with an error; the message is the last line of its stderr."""


class Learner:
    """Starts and stops the child process; one at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Process | None = None

    async def events(self, *words: str) -> AsyncGenerator[Mapping[str, Any], None]:
        """Start a child and yield its events until it ends; LearnerFailed if it fails. `words` are
        added to its command."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if k not in SECRETS} | CHILD_ENVIRONMENT,
            limit=MAX_LINE_BYTES,
            process_group=0,
        )
        self._process = process
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, min(19, os.nice(0) + NICENESS))
        assert process.stdout
        assert process.stderr
        stderr = asyncio.ensure_future(_last_line(process.stderr))
        try:
            async for event in _json_objects(process.stdout):
                yield event
            code = await process.wait()
            message = await stderr
        finally:
            stderr.cancel()
            await self.stop()
        if code:
            raise LearnerFailed(message or f"the learner ended with code {code}")

    async def stop(self) -> None:
        """End the child if there is one: SIGTERM, then SIGKILL. Accepted facts are not lost."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), SECONDS_TO_STOP)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _json_objects(stream: asyncio.StreamReader) -> AsyncIterator[Mapping[str, Any]]:
    """The lines of a stream that are JSON objects; other lines are skipped."""
    async for line in stream:
        with suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


async def _last_line(stream: asyncio.StreamReader) -> str:
    """The last line that is not empty, after the end of the stream."""
    last = b""
    async for line in stream:
        last = line.strip() or last
    return last.decode("utf-8", "replace")


def end_with_parent() -> None:
    """End this process when its stdin ends: by SIGTERM, and if that does not help by SIGKILL."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS_TO_STOP)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    end_with_parent()
    (relearn if RELEARN in sys.argv[2:] else learn)(sys.argv[1])
